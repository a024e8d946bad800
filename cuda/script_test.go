//go:build linux

package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"
)

// script is a Backend whose answers a test writes. Without an answer of the
// test's, a function succeeds, and those that make something give a new handle.
// It checks what the driver itself would not survive: a handle that was
// destroyed, and a call without its context current on the thread.
type script struct {
	t       *testing.T
	version Version
	missing map[Symbol]bool
	devices int

	mu      sync.Mutex
	answers map[Symbol]func(args []uintptr) Result
	current map[int]uintptr     // by thread
	owner   map[uintptr]uintptr // a live handle's context
	next    uintptr
	refs    map[uintptr]int // of a primary context
	wrong   []string

	calls [numSymbols]atomic.Int64
}

func newScript(t *testing.T) *script {
	s := &script{
		t: t, version: 13000, devices: 2, next: 0x1000,
		missing: map[Symbol]bool{SymFuncGetParamInfo: true},
		answers: make(map[Symbol]func([]uintptr) Result),
		current: make(map[int]uintptr),
		owner:   make(map[uintptr]uintptr),
		refs:    make(map[uintptr]int),
	}
	t.Cleanup(func() {
		for _, w := range s.wrong {
			t.Error(w)
		}
	})
	return s
}

// answer sets what a function does from now on; nil is the default again.
func (s *script) answer(sym Symbol, f func(args []uintptr) Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[sym] = f
}

func (s *script) fail(sym Symbol, r Result) {
	s.answer(sym, func([]uintptr) Result { return r })
}

func (s *script) count(sym Symbol) int { return int(s.calls[sym].Load()) }

// at is the memory that an argument points to.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

func (s *script) Has(sym Symbol) bool { return !s.missing[sym] }

// handleAt says which argument is the handle that a function uses, and
// destroys says which functions end it.
var (
	handleAt = map[Symbol]int{
		SymStreamQuery: 0, SymStreamDestroy: 0, SymStreamWaitEvent: 0, SymEventRecord: 0, SymEventQuery: 0,
		SymEventDestroy: 0, SymEventElapsedTime: 1, SymModuleUnload: 0, SymModuleGetFunction: 1,
		SymModuleGetGlobal: 2, SymMemFree: 0, SymMemFreeHost: 0, SymMemHostUnregister: 0,
		SymMemcpyHtoDAsync: 3, SymMemcpyDtoHAsync: 3, SymMemcpyDtoDAsync: 3,
		SymMemsetD8Async: 3, SymMemsetD32Async: 3, SymLaunchKernel: 8, SymLaunchCooperativeKernel: 8,
		SymMemcpyBatchAsync: 8, SymMemcpyBatchAsyncV2: 7, SymMemGetHandleForAddressRange: 1,
	}
	destroys = map[Symbol]bool{
		SymStreamDestroy: true, SymEventDestroy: true, SymModuleUnload: true,
		SymMemFree: true, SymMemFreeHost: true, SymMemHostUnregister: true,
	}
	needsContext = func(sym Symbol) bool { return sym >= SymCtxSynchronize }
)

func (s *script) Call(sym Symbol, args []uintptr) Result {
	s.calls[sym].Add(1)
	s.mu.Lock()
	s.inspect(sym, args)
	answer := s.answers[sym]
	s.mu.Unlock()
	if answer != nil {
		return answer(args)
	}
	if sym == SymCtxSetCurrent {
		// A goroutine that is not locked to its thread changes it here.
		defer runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.succeed(sym, args)
}

// inspect records a call that a driver must not get.
func (s *script) inspect(sym Symbol, args []uintptr) {
	if !needsContext(sym) {
		return
	}
	ctx := s.current[syscall.Gettid()]
	if s.refs[ctx] == 0 {
		s.wrong = append(s.wrong, fmt.Sprintf("%s without a live context current on its thread", sym))
		return
	}
	i, ok := handleAt[sym]
	if !ok || args[i] <= perThreadStream {
		return
	}
	switch owner, live := s.owner[args[i]]; {
	case !live:
		s.wrong = append(s.wrong, fmt.Sprintf("%s on handle %#x, which does not exist", sym, args[i]))
	case owner != ctx:
		s.wrong = append(s.wrong, fmt.Sprintf("%s on handle %#x with another context current", sym, args[i]))
	}
	if destroys[sym] {
		delete(s.owner, args[i])
	}
}

// handle makes a handle that belongs to the thread's context.
func (s *script) handle(out uintptr) Result {
	s.next += 1 << 16 // aligned for every page size
	s.owner[s.next] = s.current[syscall.Gettid()]
	*at[uintptr](out) = s.next
	return Success
}

func (s *script) succeed(sym Symbol, args []uintptr) Result {
	switch sym {
	case SymDriverGetVersion:
		*at[int32](args[0]) = int32(s.version)
	case SymDeviceGetCount:
		*at[int32](args[0]) = int32(s.devices)
	case SymDeviceGet:
		*at[int32](args[0]) = int32(args[1])
	case SymDeviceGetName:
		copy(at[[256]byte](args[0])[:], fmt.Sprintf("Script %d\x00", args[2]))
	case SymDeviceGetUUID:
		*at[[16]byte](args[0]) = [16]byte{0xab, 0xcd, 15: byte(args[1])}
	case SymDeviceGetPCIBusID:
		copy(at[[256]byte](args[0])[:], fmt.Sprintf("0000:A%d:00.0\x00", args[2]))
	case SymDeviceTotalMem:
		*at[uint64](args[0]) = 1 << 30
	case SymDeviceGetAttribute:
		*at[int32](args[0]) = int32(args[1])
	case SymPrimaryCtxRetain:
		ctx := 0xc0 + args[1]
		s.refs[ctx]++
		*at[uintptr](args[0]) = ctx
	case SymPrimaryCtxRelease:
		s.refs[0xc0+args[0]]--
	case SymCtxSetCurrent:
		s.current[syscall.Gettid()] = args[0]
	case SymMemAlloc, SymMemHostAlloc, SymStreamCreateWithPriority, SymEventCreate,
		SymModuleLoadDataEx:
		return s.handle(args[0])
	case SymModuleGetFunction:
		*at[uintptr](args[0]) = 0xf0
	case SymMemHostRegister:
		s.owner[args[0]] = s.current[syscall.Gettid()]
	case SymMemHostGetDevicePointer:
		*at[uintptr](args[0]) = args[1]
	}
	return Success
}

// open gives a driver and a context of device 0 over the script.
func (s *script) open() *Context {
	s.t.Helper()
	c := must(s.driver().Device("0"))(s.t)
	return must(c.Retain())(s.t)
}

func (s *script) driver() *Driver {
	s.t.Helper()
	return must(OpenBackend(s))(s.t)
}

// must unpacks a result that a test cannot go on without.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// leaks lists the handles that nobody destroyed.
func (s *script) leaks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for h := range s.owner {
		all = append(all, fmt.Sprintf("handle %#x", h))
	}
	for c, n := range s.refs {
		if n != 0 {
			all = append(all, fmt.Sprintf("context %#x: %d", c, n))
		}
	}
	return all
}
