package cuda

import (
	"fmt"
	"slices"
	"unsafe"
)

// Dim is the size of a grid or a block. The zero Dim is one block or thread,
// and Y and Z count as 1 where they are 0. X may not be 0 where another is not:
// a launch of D1(0) is refused, since a size that was computed as nothing is
// no single block.
type Dim struct{ X, Y, Z uint32 }

// D1 is a size in one dimension.
func D1(n uint32) Dim { return Dim{n, 1, 1} }

// String writes the size as it counts: "4 x 1 x 1".
func (d Dim) String() string {
	d, _ = d.full()
	return fmt.Sprintf("%d x %d x %d", d.X, d.Y, d.Z)
}

// full is the size with 1 where a 0 counts as that; ok unless it is nothing.
func (d Dim) full() (all Dim, ok bool) {
	if d == (Dim{}) {
		d.X = 1
	}
	d.Y, d.Z = max(d.Y, 1), max(d.Z, 1)
	return d, d.X > 0
}

// count is the product of the three, or a number that is too large as well.
func (d Dim) count() uint64 {
	const limit = 1 << 21 // its cube is within 64 bits
	return min(uint64(d.X), limit) * min(uint64(d.Y), limit) * min(uint64(d.Z), limit)
}

// LaunchConfig is the shape of a launch.
type LaunchConfig struct {
	Grid, Block Dim
	// SharedBytes is the dynamic shared memory of each block.
	SharedBytes uint32
	// Cooperative launches run all blocks at once, so that they can wait for
	// each other; the device must have CooperativeLaunch, and room for all.
	Cooperative bool
}

// nothing is what parameters are read from that the caller has not given: a kernel has
// at most 32,764 bytes of them.
var nothing [1 << 15]byte

// maxParameters bounds a launch. A frame's list has as many, all of nothing but those of
// the launch.
const maxParameters = 4096

// Launch starts the kernel in the stream, which must be of the module's context. Its
// parameters are in params, each from its offset on. They are copied before Launch
// returns. A fault of the kernel shows up in later calls. From CUDA 12.4 on, more
// parameters than the kernel has are refused, and one that has fewer bytes than the kernel
// declares before the next one starts or the block ends; parameters that are left out are 0.
//
// The parameters are named to the driver one by one. A packed block would have to
// have them where the compiler did, which is not where C's alignment says when a
// parameter is aligned to more than 16 bytes: that of sm_90 starts at an address that
// is no multiple of 32.
func (k *Function) Launch(s *Stream, cfg LaunchConfig, params []byte, offsets ...uint16) error {
	const call = "cuda.Function.Launch"
	f := newFrame()
	defer f.free()
	f.offsets = f.offsets[:0]
	for i, at := range offsets {
		f.offsets = append(f.offsets, int(at))
		if int(at) >= len(params) {
			return refused(call, "give a block that holds all parameters", "parameter %d of %s starts at byte %d of %d", i, k, at, len(params))
		}
	}
	if len(params) > 0 && len(offsets) == 0 {
		return refused(call, "say where each parameter starts", "%d bytes of parameters of %s without offsets", len(params), k)
	}
	f.endAtNext(len(params))
	return k.launch(call, f, s, cfg, params)
}

// endAtNext has each parameter end where the next one in the block starts, or the block
// ends. They come in the block's order but for those of a caller who wants otherwise.
func (f *frame) endAtNext(length int) {
	f.ends = f.ends[:0]
	ordered := slices.IsSorted(f.offsets)
	for i, at := range f.offsets {
		end, rest := length, f.offsets
		if ordered {
			rest = f.offsets[i+1:]
		}
		for _, o := range rest {
			if o > at && o < end {
				end = o
			}
			if ordered && o > at {
				break
			}
		}
		f.ends = append(f.ends, end)
	}
}

// LaunchArgs is Launch with the parameters given as values, each of the size
// that the kernel declares: Ptr, *DeviceMemory, *HostMemory and *Registration
// (their device addresses), bool, sized integers, floats, and structs and arrays of
// those, which have C's layout. An int has no fixed size in C and is refused. An
// error names the argument that cannot be passed. From CUDA 12.4 on, that is also one
// with fewer bytes than the kernel declares.
//
// The driver cannot check the types: arguments that differ from the kernel's parameters
// make it read wrong ones.
func (k *Function) LaunchArgs(s *Stream, cfg LaunchConfig, args ...any) error {
	f := newFrame()
	defer f.free()
	if err := f.pack(k, args); err != nil {
		return err
	}
	return k.launch("cuda.Function.LaunchArgs", f, s, cfg, f.packed)
}

// point fills f.pointers with the addresses of the parameters in the block, which
// f.keep holds in place.
func (f *frame) point(call string, k *Function, block []byte) error {
	sizes := k.parameters(len(f.offsets))
	if sizes != nil && len(sizes) < len(f.offsets) {
		return refused(call, "give what the kernel declares", "%d parameters for %s, which has %d", len(f.offsets), k, len(sizes))
	}
	base := unsafe.Pointer(unsafe.SliceData(block))
	f.keep[0] = base
	if len(f.offsets) > maxParameters {
		return refused(call, "pass a structure instead", "%d parameters for %s", len(f.offsets), k)
	}
	if f.pointers == nil {
		f.pointers = make([]uintptr, maxParameters)
		f.given = len(f.pointers)
	}
	for i := range f.given {
		f.pointers[i] = uintptr(unsafe.Pointer(&nothing))
	}
	f.given = 0
	for i, at := range f.offsets {
		if n := f.ends[i] - at; sizes != nil && sizes[i] > uint64(n) {
			return refused(call, "give what the kernel declares", "parameter %d of %s has %d bytes, of which there are %d", i, k, sizes[i], n)
		}
		f.pointers[i], f.given = uintptr(unsafe.Add(base, at)), i+1
	}
	return nil
}

// launch calls cuLaunchKernel (function, grid, block, shared bytes, stream,
// parameters, extra) or cuLaunchCooperativeKernel, which has no extra.
func (k *Function) launch(call string, f *frame, s *Stream, cfg LaunchConfig, block []byte) error {
	sym, n := SymLaunchKernel, 11
	if cfg.Cooperative {
		sym, n = SymLaunchCooperativeKernel, 10
	}
	if err := s.acquire(call); err != nil {
		return err
	}
	defer s.release()
	if err := k.acquire(call); err != nil {
		return err
	}
	defer k.module.release()
	g, okGrid := cfg.Grid.full()
	b, okBlock := cfg.Block.full()
	switch {
	case s.ctx != k.module.ctx && s.ctx.handle != k.module.ctx.handle:
		return refused(call, "use a stream of the module's context", "%s of %s in %s", k, k.module.ctx.device, s)
	case !okGrid || !okBlock:
		return refused(call, "where there is nothing to do, launch nothing", "%s, grid %s, block %s: X is 0", k, g, b)
	}
	if err := f.point(call, k, block); err != nil {
		return err
	}
	params := uintptr(unsafe.Pointer(unsafe.SliceData(f.pointers)))
	f.args = [12]uintptr{
		k.handle, uintptr(g.X), uintptr(g.Y), uintptr(g.Z), uintptr(b.X), uintptr(b.Y), uintptr(b.Z),
		uintptr(cfg.SharedBytes), s.handle, params, 0,
	}
	if err := s.ctx.run(sym, f, n); err != nil {
		return about(k.explain(err, b, cfg.SharedBytes), "%s, grid %s, block %s, in %s", k, g, b, s)
	}
	return nil
}

// explain says which limit of the kernel a launch was beyond, where the driver
// only says that it was. The caller holds the module.
func (k *Function) explain(err error, block Dim, shared uint32) error {
	e, ok := err.(*Error)
	if !ok || e.Result != LaunchOutOfResources && e.Result != InvalidValue {
		return err
	}
	threads := block.count()
	most, err1 := k.attribute(FunctionMaxThreadsPerBlock)
	dynamic, err2 := k.attribute(FunctionMaxDynamicShared)
	registers, err3 := k.attribute(FunctionRegisters)
	room, err4 := k.module.ctx.device.Attribute(MaxRegistersPerBlock)
	switch {
	case err3 == nil && err4 == nil && threads > 0 && uint64(registers) > uint64(room)/threads:
		e.Hint = fmt.Sprintf("the kernel takes %d registers in each of %d threads, and a block has %d: use a block of at most %d threads, or compile for fewer registers (__launch_bounds__)",
			registers, threads, room, fitting(registers, room, most))
	case err1 == nil && most > 0 && threads > uint64(most):
		e.Hint = fmt.Sprintf("a block of this kernel has at most %d threads, not %d", most, threads)
	case err2 == nil && uint64(shared) > uint64(dynamic):
		e.Hint = fmt.Sprintf("%d bytes of dynamic shared memory are above the kernel's %d: raise them with SetMaxDynamicShared, or ask for less", shared, dynamic)
	}
	return err
}

// fitting is how many threads a block can have for their registers, which are
// given out to whole warps by eight for each thread.
func fitting(registers, room, most int) int {
	n := room / max((registers+7)&^7, 1) &^ 31
	if most > 0 {
		n = min(n, most)
	}
	return n
}
