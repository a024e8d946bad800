//go:build linux

package cuda

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestNothing calls every function that can fail on nil, and on what nobody
// made: each gives an error that names the function and what is missing.
func TestNothing(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream, event := must(c.NewStream())(t), must(c.NewEvent(true))(t)
	kernel := must(must(c.LoadModule([]byte("ptx")))(t).Function("f"))(t)
	ctx := context.Background()
	check := func(what, function string, err error) {
		t.Helper()
		if !errors.Is(err, InvalidValue) || !strings.HasPrefix(err.Error(), function+": the "+what) {
			t.Errorf("%s without a %s: %v", function, what, err)
		}
	}
	for _, d := range []*Driver{nil, {}} {
		check("driver", "cuda.Driver.Devices", second(d.Devices()))
		check("driver", "cuda.Driver.Device", second(d.Device("0")))
	}
	check("backend", "cuda.OpenBackend", second(OpenBackend(nil)))
	for _, v := range []*Device{nil, {}} {
		check("device", "cuda.Device.Retain", second(v.Retain()))
		check("device", "cuda.Device.Attribute", second(v.Attribute(WarpSize)))
		check("device", "cuda.Device.Active", second(v.Active()))
		check("device", "cuda.Device.CanAccessPeer", second(v.CanAccessPeer(c.device)))
		check("device", "cuda.Device.CanAccessPeer", second(c.device.CanAccessPeer(v)))
	}
	for _, none := range []*Context{nil, {}} {
		for function, err := range map[string]error{
			"Err": none.Err(), "Close": none.Close(), "Do": none.Do(func() error { return nil }), "Synchronize": none.Synchronize(ctx),
			"EnablePeer": none.EnablePeer(c), "NewStream": second(none.NewStream()), "NewEvent": second(none.NewEvent(true)),
			"Alloc": second(none.Alloc(1)), "AllocHost": second(none.AllocHost(1, 0)), "RegisterHost": second(none.RegisterHost([]byte{1}, 0)),
			"LoadModule": second(none.LoadModule([]byte("ptx"))), "PointerInfo": second(none.PointerInfo(1)),
			"MemInfo":          func() error { _, _, err := none.MemInfo(); return err }(),
			"StreamPriorities": func() error { _, _, err := none.StreamPriorities(); return err }(),
		} {
			check("context", "cuda.Context."+function, err)
		}
		check("stream", "cuda.Stream.Query", second(none.WrapStream(0).Query()))
		check("other context", "cuda.Context.EnablePeer", c.EnablePeer(none))
		check("context of", "cuda.Stream.CopyPeer", stream.CopyPeer(1, none, 2, c, 3))
		check("context of", "cuda.Stream.CopyPeer", stream.CopyPeer(1, c, 2, none, 3))
	}
	check("function", "cuda.Context.Do", c.Do(nil))
	for _, none := range []*Stream{nil, {}} {
		for function, err := range map[string]error{
			"Query": second(none.Query()), "Wait": none.Wait(ctx), "WaitEvent": none.WaitEvent(event), "Close": none.Close(),
			"CopyToDevice": none.CopyToDevice(1, []byte{1}), "CopyToHost": none.CopyToHost([]byte{1}, 1), "CopyDevice": none.CopyDevice(1, 2, 3),
			"CopyHtoD": none.CopyHtoD(1, nil, 0), "CopyDtoH": none.CopyDtoH(nil, 1, 0),
			"CopyPeer": none.CopyPeer(1, c, 2, c, 3), "CopyBatch": none.CopyBatch(new(CopyBatch)), "Memset8": none.Memset8(1, 2, 3), "Memset32": none.Memset32(1, 2, 3),
		} {
			check("stream", "cuda.Stream."+function, err)
		}
		check("stream", "cuda.Event.Record", event.Record(none))
		check("stream", "cuda.Function.Launch", kernel.Launch(none, LaunchConfig{}, nil))
		check("stream", "cuda.Function.LaunchArgs", kernel.LaunchArgs(none, LaunchConfig{Cooperative: true}))
		if none.String() != "no stream" {
			t.Errorf("no stream is called %s", none)
		}
	}
	check("batch", "cuda.Stream.CopyBatch", stream.CopyBatch(nil))
	var noContext context.Context
	check("context.Context", "cuda.Stream.Wait", stream.Wait(noContext))
	check("context.Context", "cuda.Event.Wait", event.Wait(noContext))
	check("context.Context", "cuda.Context.Synchronize", c.Synchronize(noContext))
	nothingMade(t, check, stream, event)
	if must(c.NewStream(nil))(t) == nil {
		t.Error("an option that is nil stops the stream")
	}
}

// nothingMade is TestNothing for what a context makes beside streams.
func nothingMade(t *testing.T, check func(what, function string, err error), stream *Stream, event *Event) {
	ctx := context.Background()
	for i, none := range []*Event{nil, {}} {
		for function, err := range map[string]error{
			"Query": second(none.Query()), "Wait": none.Wait(ctx), "Record": none.Record(stream), "ElapsedSince": second(none.ElapsedSince(event)),
		} {
			check("event", "cuda.Event."+function, err)
		}
		check("event", "cuda.Event.ElapsedSince", second(event.ElapsedSince(none)))
		check("event", "cuda.Stream.WaitEvent", stream.WaitEvent(none))
		check([]string{"event", "handle"}[i], "cuda.Event.Close", none.Close())
		if none.String() != "no event" {
			t.Errorf("no event is called %s", none)
		}
	}
	for i, none := range []*DeviceMemory{nil, {}} {
		check([]string{"device memory", "handle"}[i], "cuda.DeviceMemory.Free", none.Free())
		check([]string{"device memory", "handle"}[i], "cuda.DeviceMemory.DMABuf", second(none.DMABuf()))
		if none.Context() != nil {
			t.Error("no memory has a context")
		}
	}
	if !(*DeviceMemory)(nil).Freed() {
		t.Error("no memory is still there")
	}
	for i, none := range []*HostMemory{nil, {}} {
		check([]string{"host memory", "handle"}[i], "cuda.HostMemory.Free", none.Close())
	}
	for i, none := range []*Registration{nil, {}} {
		check([]string{"registration", "handle"}[i], "cuda.Registration.Unregister", none.Close())
	}
	for i, none := range []*Module{nil, {}} {
		what := []string{"module", "handle"}[i]
		check(what, "cuda.Module.Close", none.Unload())
		check(what, "cuda.Module.Function", second(none.Function("f")))
		check(what, "cuda.Module.Global", func() error { _, _, err := none.Global("g"); return err }())
	}
	for _, none := range []*Function{nil, {}} {
		check("kernel", "cuda.Function.Launch", none.Launch(stream, LaunchConfig{}, nil))
		check("kernel", "cuda.Function.LaunchArgs", none.LaunchArgs(stream, LaunchConfig{}, Ptr(1)))
		check("kernel", "cuda.Function.Attribute", second(none.Attribute(FunctionRegisters)))
		check("kernel", "cuda.Function.SetMaxDynamicShared", none.SetMaxDynamicShared(1))
		check("kernel", "cuda.Function.MaxActiveBlocks", second(none.MaxActiveBlocks(1, 0)))
	}
}

// TestRefusalsNameThePublicFunction: what this package refuses was no call of
// the driver, and its error neither names one nor gives the driver's words.
func TestRefusalsNameThePublicFunction(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream, m := must(c.NewStream())(t), must(c.LoadModule([]byte("ptx")))(t)
	kernel := must(m.Function("f"))(t)
	closed := must(c.NewStream())(t)
	report(t, closed.Close())
	for _, row := range []struct {
		err  error
		want string
	}{
		{second(c.driver.Device("7")), `cuda.Driver.Device: no GPU has the ordinal, UUID or PCI address "7"; there is: 0 (Script 0, GPU-`},
		{second(c.Alloc(0)), "cuda.Context.Alloc: 0 bytes; allocate at least one byte"},
		{second(c.AllocHost(1, ReadOnly)), "cuda.Context.AllocHost: flags 0x10; see HostFlags for which call takes which"},
		{second(c.RegisterHost(nil, 0)), "cuda.Context.RegisterHost: 0 bytes; register at least one byte"},
		{c.EnablePeer(c), "cuda.Context.EnablePeer: GPU 0 (Script 0) to memory of itself; a context needs no permission for its own memory"},
		{second(m.Function("")), `cuda.Module.Function: name ""; give a name without zero bytes`},
		{c.WrapStream(0).CopyBatch(new(CopyBatch)), "cuda.Stream.CopyBatch: the legacy default stream of GPU 0 (Script 0): the legacy default stream is not allowed here; use a stream of NewStream"},
		{kernel.LaunchArgs(stream, LaunchConfig{}, 5), "cuda.Function.LaunchArgs: argument 0 of kernel f: int has no fixed size in C: use int32 or int64"},
		{closed.Wait(context.Background()), "cuda.Stream.Wait: the stream is already closed"},
		{closed.Memset8(1, 2, 3), "cuda.Stream.Memset8: the stream is already closed"},
	} {
		if row.err == nil || !strings.HasPrefix(row.err.Error(), row.want) {
			t.Errorf("%v\nwant %s", row.err, row.want)
		}
	}
}

// TestLaunchSizes: a size that was computed as nothing is refused, and no size
// is written in the manner of a Go struct.
func TestLaunchSizes(t *testing.T) {
	s, _, k, stream := kernelOf(t)
	for _, row := range []struct {
		cfg  LaunchConfig
		want string
	}{
		{LaunchConfig{Grid: D1(0), Block: D1(256)}, "cuda.Function.Launch: kernel f, grid 0 x 1 x 1, block 256 x 1 x 1: X is 0; where there is nothing to do, launch nothing"},
		{LaunchConfig{Grid: D1(4), Block: D1(0)}, "cuda.Function.Launch: kernel f, grid 4 x 1 x 1, block 0 x 1 x 1: X is 0"},
		{LaunchConfig{Grid: Dim{Y: 3}}, "grid 0 x 3 x 1"},
		{LaunchConfig{Grid: Dim{Z: 3}, Cooperative: true}, "grid 0 x 1 x 3"},
	} {
		err := k.Launch(stream, row.cfg, nil)
		if !errors.Is(err, InvalidValue) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v, want %s", err, row.want)
		}
		if err := k.LaunchArgs(stream, row.cfg, uint32(1)); !errors.Is(err, InvalidValue) || !strings.HasPrefix(err.Error(), "cuda.Function.LaunchArgs: kernel f, grid") {
			t.Errorf("LaunchArgs: %v", err)
		}
	}
	if n := s.count(SymLaunchKernel) + s.count(SymLaunchCooperativeKernel); n != 0 {
		t.Errorf("the driver was called %d times", n)
	}
	for d, want := range map[Dim]string{{}: "1 x 1 x 1", D1(4): "4 x 1 x 1", {X: 4}: "4 x 1 x 1", {X: 2, Z: 5}: "2 x 1 x 5"} {
		if d.String() != want {
			t.Errorf("%#v is written %s", d, d)
		}
	}
	s.fail(SymLaunchKernel, NotFound)
	if err := k.Launch(stream, LaunchConfig{Grid: D1(4), Block: Dim{X: 8, Y: 4}}, nil); err == nil || !strings.Contains(err.Error(), "kernel f, grid 4 x 1 x 1, block 8 x 4 x 1, in stream") {
		t.Errorf("a launch that the driver refuses: %v", err)
	}
}

// TestLaunchBeyondALimit: the driver says that something is too much, and the
// error what and how much.
func TestLaunchBeyondALimit(t *testing.T) {
	s, _, k, stream := kernelOf(t)
	limits := map[uintptr]int32{} // by FunctionAttribute
	s.answer(SymFuncGetAttribute, func(a []uintptr) Result { *at[int32](a[0]) = limits[a[1]]; return Success })
	s.answer(SymDeviceGetAttribute, func(a []uintptr) Result { *at[int32](a[0]) = 65536; return Success })
	for _, row := range []struct {
		registers, threads, shared int32
		result                     Result
		cfg                        LaunchConfig
		want                       string
	}{
		{128, 512, 49152, LaunchOutOfResources, LaunchConfig{Block: D1(1024)}, "the kernel takes 128 registers in each of 1024 threads, and a block has 65536: use a block of at most 512 threads"},
		{66, 1024, 49152, LaunchOutOfResources, LaunchConfig{Block: Dim{X: 32, Y: 32}}, "takes 66 registers in each of 1024 threads, and a block has 65536: use a block of at most 896 threads"},
		{32, 1024, 49152, LaunchOutOfResources, LaunchConfig{Block: D1(64)}, "the block's registers (those of a thread x its threads)"},
		{32, 1024, 49152, InvalidValue, LaunchConfig{Block: D1(2048)}, "a block of this kernel has at most 1024 threads, not 2048"},
		{32, 1024, 49152, InvalidValue, LaunchConfig{Block: Dim{1 << 31, 1 << 31, 1 << 31}}, "in each of 9223372036854775808 threads"},
		{32, 1024, 49152, InvalidValue, LaunchConfig{SharedBytes: 50000}, "50000 bytes of dynamic shared memory are above the kernel's 49152: raise them with SetMaxDynamicShared"},
	} {
		limits[uintptr(FunctionRegisters)], limits[uintptr(FunctionMaxThreadsPerBlock)], limits[uintptr(FunctionMaxDynamicShared)] = row.registers, row.threads, row.shared
		s.fail(SymLaunchKernel, row.result)
		if err := k.Launch(stream, row.cfg, nil); !errors.Is(err, row.result) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v\nwant %s", err, row.want)
		}
	}
	// Without the limits the driver's own words remain.
	s.fail(SymFuncGetAttribute, InvalidValue)
	if err := k.Launch(stream, LaunchConfig{Block: D1(2048)}, nil); !errors.Is(err, InvalidValue) || strings.Contains(err.Error(), "threads, not") {
		t.Errorf("a kernel that tells no limits: %v", err)
	}
}
