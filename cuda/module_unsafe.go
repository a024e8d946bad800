package cuda

import (
	"errors"
	"unsafe"
)

// The options of the JIT compiler (CUjit_option) that load uses.
const (
	jitInfoLogBuffer   = 3
	jitInfoLogSize     = 4
	jitErrorLogBuffer  = 5
	jitErrorLogSize    = 6
	jitLogBytes        = 16 << 10
	jitOptions         = 4
	jitImageTerminator = 0
)

// jit is what cuModuleLoadDataEx reads and writes besides the image. Option
// values are words: a pointer, or a number in its low half.
type jit struct {
	options [jitOptions]int32
	values  [jitOptions]uintptr
	info    [jitLogBytes]byte
	errors  [jitLogBytes]byte
}

func (m *Module) load(image []byte) error {
	// PTX is a C string. More bytes than a cubin has do no harm.
	if image[len(image)-1] != jitImageTerminator {
		image = append(image[:len(image):len(image)], jitImageTerminator)
	}
	j := new(jit)
	j.options = [jitOptions]int32{jitInfoLogBuffer, jitInfoLogSize, jitErrorLogBuffer, jitErrorLogSize}
	j.values = [jitOptions]uintptr{
		uintptr(unsafe.Pointer(&j.info)), jitLogBytes, uintptr(unsafe.Pointer(&j.errors)), jitLogBytes,
	}
	err := m.ctx.call(SymModuleLoadDataEx, uintptr(unsafe.Pointer(&m.handle)),
		uintptr(unsafe.Pointer(unsafe.SliceData(image))), jitOptions,
		uintptr(unsafe.Pointer(&j.options)), uintptr(unsafe.Pointer(&j.values)))
	if e, ok := err.(*Error); ok {
		e.Log = untilNUL(j.errors[:]) + untilNUL(j.info[:])
	}
	return err
}

func (m *Module) function(name []byte) (h uintptr, err error) {
	err = m.ctx.call(SymModuleGetFunction, uintptr(unsafe.Pointer(&h)), m.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(name))))
	return h, err
}

func (m *Module) global(name []byte) (p Ptr, n uint64, err error) {
	err = m.ctx.call(SymModuleGetGlobal, uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(&n)), m.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(name))))
	return p, n, err
}

// parameters asks the driver for the sizes of the first n parameters: nil where it does
// not tell them, fewer if the kernel has fewer. It never asks for one that the launch does
// not have: tools that watch the driver's errors would report every kernel.
func (k *Function) parameters(n int) []uint64 {
	if p := k.sizes.Load(); p != nil && len(*p) >= n {
		return *p
	}
	ctx := k.module.ctx
	if !ctx.driver.has[SymFuncGetParamInfo] {
		return nil
	}
	sizes := make([]uint64, 0, n)
	for len(sizes) < n {
		var offset, size uint64
		err := ctx.call(SymFuncGetParamInfo, k.handle, uintptr(len(sizes)),
			uintptr(unsafe.Pointer(&offset)), uintptr(unsafe.Pointer(&size)))
		if errors.Is(err, InvalidValue) {
			return sizes // there are no more
		}
		if err != nil {
			return nil
		}
		sizes = append(sizes, size)
	}
	k.sizes.Store(&sizes)
	return sizes
}

func (k *Function) attribute(a FunctionAttribute) (int, error) {
	var n int32
	err := k.module.ctx.call(SymFuncGetAttribute, uintptr(unsafe.Pointer(&n)), uintptr(a), k.handle)
	return int(n), err
}

func (k *Function) activeBlocks(threads, shared int) (int, error) {
	var n int32
	err := k.module.ctx.call(SymOccupancyMaxActiveBlocks, uintptr(unsafe.Pointer(&n)), k.handle,
		uintptr(threads), uintptr(shared))
	return int(n), err
}
