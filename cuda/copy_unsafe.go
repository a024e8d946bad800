package cuda

import "unsafe"

// CopyToDevice copies src to device memory, in the stream's order. An empty
// src is no work.
//
// If src is pinned, the copy runs asynchronously and src must stay valid and
// unchanged until it is done. From other memory, also Go's, the call itself
// reads src and returns when it has.
func (s *Stream) CopyToDevice(dst Ptr, src []byte) error {
	return s.copyIn("cuda.Stream.CopyToDevice", dst, unsafe.Pointer(unsafe.SliceData(src)), uint64(len(src)))
}

// CopyToHost copies device memory to dst, in the stream's order. An empty dst
// is no work.
//
// If dst is pinned, the copy runs asynchronously and dst must stay valid until
// it is done. To other memory, also Go's, the call returns only when it is.
func (s *Stream) CopyToHost(dst []byte, src Ptr) error {
	return s.copyOut("cuda.Stream.CopyToHost", unsafe.Pointer(unsafe.SliceData(dst)), src, uint64(len(dst)))
}

// CopyHtoD is CopyToDevice of n bytes at an address.
func (s *Stream) CopyHtoD(dst Ptr, src unsafe.Pointer, n uint64) error {
	return s.copyIn("cuda.Stream.CopyHtoD", dst, src, n)
}

func (s *Stream) copyIn(call string, dst Ptr, src unsafe.Pointer, n uint64) error {
	f := newFrame()
	defer f.free()
	f.keep[0] = src
	return s.copy(f, call, SymMemcpyHtoDAsync, uintptr(dst), uintptr(src), n)
}

// CopyDtoH is CopyToHost of n bytes to an address.
func (s *Stream) CopyDtoH(dst unsafe.Pointer, src Ptr, n uint64) error {
	return s.copyOut("cuda.Stream.CopyDtoH", dst, src, n)
}

func (s *Stream) copyOut(call string, dst unsafe.Pointer, src Ptr, n uint64) error {
	f := newFrame()
	defer f.free()
	f.keep[0] = dst
	return s.copy(f, call, SymMemcpyDtoHAsync, uintptr(dst), uintptr(src), n)
}

// CopyDevice copies n bytes within the device's memory, or from or to memory
// of a peer that EnablePeer was called for, in the stream's order. 0 bytes
// are no work.
func (s *Stream) CopyDevice(dst, src Ptr, n uint64) error {
	f := newFrame()
	defer f.free()
	return s.copy(f, "cuda.Stream.CopyDevice", SymMemcpyDtoDAsync, uintptr(dst), uintptr(src), n)
}

// copy makes one of the three calls, whose arguments have the same form.
func (s *Stream) copy(f *frame, call string, sym Symbol, dst, src uintptr, n uint64) error {
	if err := s.acquire(call); err != nil {
		return err
	}
	defer s.release()
	if n == 0 {
		return s.alive(sym)
	}
	f.args[0], f.args[1], f.args[2], f.args[3] = dst, src, uintptr(n), s.handle
	if err := s.ctx.run(sym, f, 4); err != nil {
		return about(err, "%d bytes from %#x to %#x in %s", n, src, dst, s)
	}
	return nil
}

// alive is the answer to a call that has no work: nothing, unless the
// context is lost.
func (s *Stream) alive(sym Symbol) error {
	if err := s.ctx.lost.Load(); err != nil {
		return s.ctx.lostError(sym, err)
	}
	return nil
}

// CopyPeer copies n bytes between the memories of two contexts, in the order
// of this stream, whether or not the devices can reach each other: if not, the
// driver goes through the host.
func (s *Stream) CopyPeer(dst Ptr, dstCtx *Context, src Ptr, srcCtx *Context, n uint64) error {
	const call = "cuda.Stream.CopyPeer"
	if err := s.acquire(call); err != nil {
		return err
	}
	defer s.release()
	for _, c := range []*Context{dstCtx, srcCtx} {
		if c.unmade() {
			return missing(call, "context of the source or the destination")
		}
		// As in EnablePeer: held only briefly, and never waited for.
		if !c.mu.TryRLock() {
			return closedError(call, "context of "+c.device.String())
		}
		defer c.mu.RUnlock()
		if c.closed {
			return closedError(call, "context of "+c.device.String())
		}
	}
	if n == 0 {
		return s.alive(SymMemcpyPeerAsync)
	}
	err := s.ctx.call(SymMemcpyPeerAsync, uintptr(dst), dstCtx.handle, uintptr(src), srcCtx.handle, uintptr(n), s.handle)
	return about(err, "%d bytes from %s of %s to %s of %s", n, src, srcCtx.device, dst, dstCtx.device)
}

// Memset8 sets n bytes to v, in the stream's order.
func (s *Stream) Memset8(dst Ptr, v byte, n uint64) error {
	return s.memset("cuda.Stream.Memset8", SymMemsetD8Async, dst, uint32(v), n)
}

// Memset32 sets 32-bit words to v, in the stream's order. dst must be a
// multiple of 4.
func (s *Stream) Memset32(dst Ptr, v uint32, words uint64) error {
	return s.memset("cuda.Stream.Memset32", SymMemsetD32Async, dst, v, words)
}

func (s *Stream) memset(call string, sym Symbol, dst Ptr, v uint32, n uint64) error {
	if err := s.acquire(call); err != nil {
		return err
	}
	defer s.release()
	if n == 0 {
		return s.alive(sym)
	}
	f := newFrame()
	defer f.free()
	f.args[0], f.args[1], f.args[2], f.args[3] = uintptr(dst), uintptr(v), uintptr(n), s.handle
	if err := s.ctx.run(sym, f, 4); err != nil {
		return about(err, "%d elements at %s in %s", n, dst, s)
	}
	return nil
}
