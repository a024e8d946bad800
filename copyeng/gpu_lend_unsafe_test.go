package copyeng_test

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// twisted is a software GPU that says other things of addresses.
type twisted struct {
	*cudafake.GPU
	// say changes an attribute (CUpointer_attribute) of an address.
	say func(attribute int, address, value uint64) uint64
}

func (b *twisted) Call(s cuda.Symbol, args []uintptr) cuda.Result {
	r := b.GPU.Call(s, args)
	if s == cuda.SymPointerGetAttribute && r == cuda.Success && b.say != nil {
		out := *(**uint64)(unsafe.Pointer(&args[0]))
		*out = b.say(int(args[1]), uint64(args[2]), *out)
	}
	return r
}

// addressOf is where memory lies.
func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// twistedGPU opens the engine over such a driver, and gives memory of 8 MiB in
// three registrations.
func twistedGPU(t *testing.T) (b *twisted, g *copyeng.GPU, mem []byte) {
	t.Helper()
	b = &twisted{GPU: cudafake.New()}
	copyfake.Register(b.GPU)
	d, err := cuda.OpenBackend(b)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	if g, err = copyeng.OpenGPU(ctx, copyeng.GPUOptions{}); err != nil {
		t.Fatal(err)
	}
	mem = mapping(t, 8*mib)
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), ctx.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	for _, part := range [][]byte{mem[:2*mib], mem[2*mib : 4*mib], mem[4*mib:]} {
		register(t, ctx, part, 0)
	}
	return b, g, mem
}

// What a driver says of the middle of a loan counts: addresses that the GPU has
// elsewhere, memory that moves by itself, device memory.
func TestLendHostOfOddMemory(t *testing.T) {
	const memoryType, devicePointer, bufferID, managed, rangeStart, rangeSize = 2, 3, 7, 8, 11, 12
	b, g, mem := twistedGPU(t)
	base := addressOf(mem)
	// beyond changes one attribute of the addresses from the third MiB on.
	beyond := func(attribute int, change func(v uint64) uint64) func(int, uint64, uint64) uint64 {
		return func(a int, at, v uint64) uint64 {
			if a == attribute && at >= base+2*mib {
				return change(v)
			}
			return v
		}
	}
	for _, c := range []struct {
		what, text string
		offset     uint64
		say        func(attribute int, address, value uint64) uint64
	}{
		{"GPU addresses with a gap", "does not follow", 2 * mib, beyond(devicePointer, func(v uint64) uint64 { return v + 4096 })},
		{"managed memory", "managed", 2 * mib, beyond(managed, func(v uint64) uint64 { return v | 1 })},
		{"device memory", "device memory", 2 * mib, beyond(memoryType, func(uint64) uint64 { return 2 })},
		{"an allocation within the range of another", "another allocation", 2*mib - 1, func(a int, at, v uint64) uint64 {
			if a == bufferID && at == base+2*mib-1 {
				return v + 1
			}
			return v
		}},
	} {
		b.say = c.say
		s, err := g.LendHost(mem)
		refusedAt(t, c.what, s, err, c.offset, c.text)
	}
	// A GPU that has the memory elsewhere, as a whole: its own addresses count,
	// and so do ranges that are in them.
	const moved = 1 << 40
	b.say = func(a int, _, v uint64) uint64 {
		if a == devicePointer || a == rangeStart {
			return v + moved
		}
		return v
	}
	s, err := g.LendHost(mem)
	if err != nil || s.Address() != base+moved {
		t.Errorf("memory that the GPU has elsewhere: %v", err)
	}
	s, err = g.LendHost(mem[mib:])
	refusedAt(t, "a border between ranges of the GPU's addresses", s, err, mib, "begins")
	// Ranges alone tell where a border is, and identity alone that there is none.
	b.say = func(a int, _, v uint64) uint64 {
		if a == bufferID {
			return 0
		}
		return v
	}
	s, err = g.LendHost(mem[mib:])
	refusedAt(t, "a border between ranges without identity", s, err, mib, "begins")
	if _, err := g.LendHost(mem); err != nil {
		t.Errorf("borders where no page lies, without identity: %v", err)
	}
	b.say = func(a int, at, v uint64) uint64 {
		switch {
		case a == bufferID:
			return 1
		case a == rangeStart: // a driver that answers with the part of a registration
			return at &^ 4095
		case a == rangeSize:
			return 4096
		}
		return v
	}
	if _, err := g.LendHost(mem[512:]); err != nil {
		t.Errorf("one registration in parts: %v", err)
	}
	b.say = nil
}
