//go:build linux

package cuda

import (
	"context"
	"testing"
	"unsafe"
)

// BenchmarkSetCurrent is what each call pays for being safe on any goroutine.
func BenchmarkSetCurrent(b *testing.B) {
	c := gpu(b)
	args := []uintptr{c.handle}
	b.ReportAllocs()
	for b.Loop() {
		c.driver.backend.Call(SymCtxSetCurrent, args)
	}
}

// BenchmarkQuery is a query of an idle stream: by itself, and in Do.
func BenchmarkQuery(b *testing.B) {
	c := gpu(b)
	stream := must(c.NewStream())(b)
	query := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := stream.Query(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("plain", query)
	b.Run("do", func(b *testing.B) {
		ok(b, c.Do(func() error { query(b); return nil }))
	})
	b.Run("raw", func(b *testing.B) {
		ok(b, c.Do(func() error {
			args := []uintptr{stream.handle}
			b.ReportAllocs()
			for b.Loop() {
				c.driver.backend.Call(SymStreamQuery, args)
			}
			return nil
		}))
	})
}

// BenchmarkLaunch is the launch of an empty kernel; the queue's limit is
// part of it.
func BenchmarkLaunch(b *testing.B) {
	c := gpu(b)
	stream, m := must(c.NewStream())(b), must(c.LoadModule(kernelsPTX))(b)
	nothing, poke := must(m.Function("nothing"))(b), must(m.Function("poke"))(b)
	memory := must(c.Alloc(16))(b)
	params := make([]byte, 8)
	for i := range 8 {
		params[i] = byte(memory.Ptr() >> (8 * i))
	}
	for name, f := range map[string]func() error{
		"empty":     func() error { return nothing.Launch(stream, LaunchConfig{}, nil) },
		"parameter": func() error { return poke.Launch(stream, LaunchConfig{}, params, 0) },
		"args":      func() error { return poke.LaunchArgs(stream, LaunchConfig{}, memory) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ok(b, f())
			}
			ok(b, stream.Wait(soon(b)))
		})
	}
}

// BenchmarkCopyAsync is the submission of a copy of 4 KiB from pinned memory.
func BenchmarkCopyAsync(b *testing.B) {
	c := gpu(b)
	stream, m, h := must(c.NewStream())(b), must(c.Alloc(4096))(b), must(c.AllocHost(4096, 0))(b)
	b.ReportAllocs()
	for b.Loop() {
		ok(b, stream.CopyToDevice(m.Ptr(), h.Bytes()))
	}
	ok(b, stream.Wait(soon(b)))
}

// BenchmarkCopyAndWait is the latency of a copy of 4 KiB: with Wait, and with
// the driver's calls alone.
func BenchmarkCopyAndWait(b *testing.B) {
	c := gpu(b)
	stream, m, h := must(c.NewStream())(b), must(c.Alloc(4096))(b), must(c.AllocHost(4096, 0))(b)
	ctx := context.Background()
	b.Run("wait", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ok(b, stream.CopyToDevice(m.Ptr(), h.Bytes()))
			ok(b, stream.Wait(ctx))
		}
	})
	b.Run("raw", func(b *testing.B) {
		ok(b, c.Do(func() error {
			copyArgs := []uintptr{uintptr(m.Ptr()), uintptr(unsafe.Pointer(&h.Bytes()[0])), 4096, stream.handle}
			waitArgs := []uintptr{stream.handle}
			b.ReportAllocs()
			for b.Loop() {
				c.driver.backend.Call(SymMemcpyHtoDAsync, copyArgs)
				c.driver.backend.Call(SymStreamSynchronize, waitArgs)
			}
			return nil
		}))
	})
}
