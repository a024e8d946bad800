package gpuinfo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
)

// Reader asks both sources. Its methods may be called from any goroutine.
type Reader struct {
	sys  string // where sysfs is mounted
	open func() (library, error)

	mu     sync.Mutex // protects the two below; NVML is never called under it
	held   library    // keeps NVML from being shut down between calls; nil until the first one
	closed bool
}

// Open makes a Reader of this machine. Nothing is loaded yet.
func Open() *Reader { return OpenTree("/sys") }

// OpenTree is Open with another folder in the place of sysfs. NVML is this machine's all the same.
func OpenTree(sys string) *Reader { return &Reader{sys: sys, open: openNVML} }

// OpenWithoutNVML is OpenTree for a Reader that answers as one that was built without cgo.
func OpenWithoutNVML(sys string) *Reader {
	return &Reader{sys: sys, open: func() (library, error) { return nil, &UnavailableError{What: "NVML", Reason: NoCgo} }}
}

// Close gives NVML back; the last Reader's Close shuts it down. A call that is still in flight ends first. Further calls answer ErrClosed.
func (r *Reader) Close() error {
	r.mu.Lock()
	held := r.held
	r.held, r.closed = nil, true
	r.mu.Unlock()
	if held == nil {
		return nil
	}
	return held.close()
}

// NVML gives the version of the driver that NVML belongs to, or the [*UnavailableError] that says why there is no NVML.
func (r *Reader) NVML(ctx context.Context) (driverVersion string, err error) {
	return within(ctx, func() (string, error) {
		lib, err := r.acquire()
		if err != nil {
			return "", err
		}
		v, err := lib.driverVersion()
		return v, errors.Join(err, lib.close())
	})
}

// Throughput measures the traffic of a GPU's link for about 40 ms. sysfs has no such figure: without NVML the error is an
// [*UnavailableError].
func (r *Reader) Throughput(ctx context.Context, address string) (Throughput, error) {
	address, err := canonical(address)
	if err != nil {
		return Throughput{}, err
	}
	return within(ctx, func() (Throughput, error) {
		lib, err := r.acquire()
		if err != nil {
			return Throughput{}, err
		}
		g, err := lib.gpu(address)
		if err != nil {
			return Throughput{}, errors.Join(err, lib.close())
		}
		t, err := g.throughput()
		return t, errors.Join(err, lib.close())
	})
}

// Query gives what is known of the GPU at a PCI address such as 0000:01:00.0. What NVML does not answer, or not before ctx ends, comes
// from sysfs where that has it. The error is ErrClosed, or a [*NotFoundError] where neither source knows the address.
func (r *Reader) Query(ctx context.Context, address string) (Info, error) {
	address, err := canonical(address)
	if err != nil {
		return Info{}, err
	}
	info, nvmlErr := within(ctx, func() (Info, error) {
		lib, err := r.acquire()
		if err != nil {
			return Info{}, err
		}
		g, err := lib.gpu(address)
		if err != nil {
			return Info{}, errors.Join(err, lib.close())
		}
		return ask(g), lib.close()
	})
	switch {
	case errors.Is(nvmlErr, ErrClosed):
		return Info{}, nvmlErr
	case nvmlErr != nil:
		info = nothing(nvmlErr)
	}
	info.Address = address
	if _, err := os.Stat(r.folder(address)); err != nil {
		if nvmlErr != nil {
			return Info{}, &NotFoundError{address, errors.Join(nvmlErr, err)}
		}
		return info, nil
	}
	r.complete(&info)
	return info, nil
}

// acquire gives the caller a share of NVML of its own, which it closes, and the Reader one at the first time. So a call that hangs in
// the driver keeps nobody from closing the Reader.
func (r *Reader) acquire() (library, error) {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	lib, err := r.open()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	keep := r.held == nil && !r.closed
	if keep {
		r.held = lib
	}
	r.mu.Unlock()
	if keep { // the caller's own; NVML is up, so that this does not wait
		return r.open()
	}
	return lib, nil
}

// within runs f, and gives up waiting for it when ctx ends: a driver that hangs takes nobody with it. f then goes on by itself.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), &UnavailableError{What: "NVML", Reason: Timeout, Detail: context.Cause(ctx).Error(), Err: ctx.Err()}
	}
}

var addressForm = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// canonical writes an address as sysfs does. It also keeps others out of the paths made with it.
func canonical(address string) (string, error) {
	a := strings.ToLower(address)
	if strings.Count(a, ":") == 1 {
		a = "0000:" + a
	}
	if !addressForm.MatchString(a) {
		return "", &NotFoundError{address, errors.New("an address is like 0000:01:00.0")}
	}
	for len(a) > len("0000:01:00.0") && a[0] == '0' { // NVML writes domains with eight digits
		a = a[1:]
	}
	return a, nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
