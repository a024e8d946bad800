package cuda

import "unsafe"

// Dim is the size of a grid or a block. 0 counts as 1.
type Dim struct{ X, Y, Z uint32 }

// D1 is a size in one dimension.
func D1(n uint32) Dim { return Dim{X: n} }

// LaunchConfig is the shape of a launch.
type LaunchConfig struct {
	Grid, Block Dim
	// SharedBytes is the dynamic shared memory of each block.
	SharedBytes uint32
	// Cooperative launches run all blocks at once, so that they can wait for
	// each other; the device must have CooperativeLaunch, and room for all.
	Cooperative bool
}

// The keys of cuLaunchKernel's argument extra.
const (
	launchEnd           = 0
	launchBufferPointer = 1
	launchBufferSize    = 2
)

// Launch starts the kernel in the stream, which must be of the module's
// context. params is the kernel's parameter block: each parameter at its
// natural alignment, as LaunchArgs packs it. It is copied before Launch
// returns. A fault of the kernel shows up in later calls.
//
// A cooperative launch needs LaunchArgs, which knows where parameters start.
func (k *Function) Launch(s *Stream, cfg LaunchConfig, params []byte) error {
	if cfg.Cooperative && len(params) > 0 {
		return refused(SymLaunchCooperativeKernel, "use LaunchArgs for a cooperative launch", "%s", k)
	}
	f := newFrame()
	defer f.free()
	f.keep[0] = unsafe.Pointer(unsafe.SliceData(params))
	f.size = uintptr(len(params))
	var extra uintptr
	if len(params) > 0 {
		f.extra = [5]uintptr{launchBufferPointer, uintptr(f.keep[0]),
			launchBufferSize, uintptr(unsafe.Pointer(&f.size)), launchEnd}
		extra = uintptr(unsafe.Pointer(&f.extra))
	}
	return k.launch(f, s, cfg, 0, extra)
}

// LaunchArgs is Launch with the parameters given as values, each of the size
// that the kernel declares: Ptr, *DeviceMemory, *HostMemory and *Registration
// (their device addresses), bool, sized integers, floats, and structs and arrays of
// those, which have C's layout. An int has no fixed size in C and is refused. An
// error names the argument that cannot be passed.
//
// The driver cannot check the types: arguments that differ from the
// kernel's parameters in size or number make it read wrong ones.
func (k *Function) LaunchArgs(s *Stream, cfg LaunchConfig, args ...any) error {
	f := newFrame()
	defer f.free()
	if err := f.pack(k, args); err != nil {
		return err
	}
	if !cfg.Cooperative {
		return k.Launch(s, cfg, f.packed)
	}
	f.pointers = f.pointers[:0]
	base := unsafe.Pointer(unsafe.SliceData(f.packed))
	for _, offset := range f.offsets {
		f.pointers = append(f.pointers, uintptr(unsafe.Add(base, offset)))
	}
	var params uintptr
	if len(f.pointers) > 0 {
		params = uintptr(unsafe.Pointer(unsafe.SliceData(f.pointers)))
	}
	return k.launch(f, s, cfg, params, 0)
}

// launch calls cuLaunchKernel (function, grid, block, shared bytes, stream,
// parameters, extra) or cuLaunchCooperativeKernel, which has no extra.
func (k *Function) launch(f *frame, s *Stream, cfg LaunchConfig, params, extra uintptr) error {
	sym, n := SymLaunchKernel, 11
	if cfg.Cooperative {
		sym, n = SymLaunchCooperativeKernel, 10
	}
	if err := s.acquire(sym.String()); err != nil {
		return err
	}
	defer s.release()
	if err := k.module.acquire(sym.String()); err != nil {
		return err
	}
	defer k.module.release()
	if s.ctx != k.module.ctx && s.ctx.handle != k.module.ctx.handle {
		return refused(sym, "use a stream of the module's context", "%s of %s in %s", k, k.module.ctx.device, s)
	}
	g, b := cfg.Grid, cfg.Block
	f.args = [12]uintptr{
		k.handle,
		uintptr(max(g.X, 1)), uintptr(max(g.Y, 1)), uintptr(max(g.Z, 1)),
		uintptr(max(b.X, 1)), uintptr(max(b.Y, 1)), uintptr(max(b.Z, 1)),
		uintptr(cfg.SharedBytes), s.handle, params, extra,
	}
	if err := s.ctx.run(sym, f, n); err != nil {
		return about(err, "%s, grid %v, block %v, in %s", k, g, b, s)
	}
	return nil
}
