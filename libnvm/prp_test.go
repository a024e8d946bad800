package libnvm

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// walkPRP is an independent reading of the specification (4.1.1): it follows
// the PRPs of a command over n bytes and returns the pieces, or what is wrong.
func walkPRP(f *fakeTransport, c *Command, n int) (pieces [][]byte, wrong string) {
	take := func(a uint64, k int) bool {
		b := f.at(a, k)
		if b == nil {
			wrong = "an address outside all memory"
			return false
		}
		pieces = append(pieces, b)
		return true
	}
	if c.PRP1%4 != 0 {
		return nil, "PRP1 is not a dword's address"
	}
	k := min(n, PageSize-int(c.PRP1%PageSize))
	if !take(c.PRP1, k) {
		return nil, wrong
	}
	rest := n - k
	if rest == 0 {
		if c.PRP2 != 0 {
			return nil, "PRP2 is set and not used"
		}
		return pieces, ""
	}
	if rest <= PageSize {
		if c.PRP2%PageSize != 0 {
			return nil, "PRP2 has an offset"
		}
		take(c.PRP2, rest)
		return pieces, wrong
	}
	if c.PRP2%8 != 0 {
		return nil, "the list pointer is not a qword's address"
	}
	for at := c.PRP2; rest > 0; {
		entry := f.at(at, 8)
		if entry == nil {
			return nil, "a list entry outside all memory"
		}
		v := le.Uint64(entry)
		if v%PageSize != 0 {
			return nil, "a list entry has an offset"
		}
		if at%PageSize == PageSize-8 && rest > PageSize {
			at = v // the last entry of a page is a pointer while more than one page is left
			continue
		}
		k := min(rest, PageSize)
		if !take(v, k) {
			return nil, wrong
		}
		rest -= k
		at += 8
	}
	return pieces, ""
}

// TestPRP (pitfall 9): for any size, offset and transfer size the PRPs of all
// parts describe the buffer, each byte once and nothing beside it.
func TestPRP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newPRPHost(t)
		size := 512 << rapid.IntRange(0, 3).Draw(t, "block")
		h.ns.BlockSize = size
		h.ns.shift = uint(9 + log2(size/512))
		h.ns.maxData = uint64(h.c.maxTransfer / size)
		blocks := rapid.Uint64Range(1, uint64(4*h.c.maxTransfer/size)).Draw(t, "blocks")
		if rapid.Bool().Draw(t, "edge") {
			blocks = max(1, h.ns.maxData*rapid.Uint64Range(1, 3).Draw(t, "whole")+rapid.Uint64Range(0, 2).Draw(t, "off by")-1)
		}
		off := rapid.IntRange(0, 2048).Draw(t, "offset") * 4
		n := int(blocks) * size
		start := rapid.Uint64Range(0, 1<<40-blocks).Draw(t, "LBA")
		m, err := h.f.Alloc(off + n + PageSize)
		if err != nil {
			t.Fatal(err)
		}
		h.f.memory = append(h.f.memory[:len(h.f.memory)-1:len(h.f.memory)-1], m)
		if _, err := h.q.Submit(&Request{Op: OpRead, NS: h.ns, LBA: start, Blocks: blocks, Mem: m, Offset: off}); err != nil {
			t.Fatal(err)
		}
		stamp := byte(1)
		var want []byte
		lba := start
		for left := n; left > 0; {
			if h.fetched == h.q.sqRung {
				t.Fatalf("%d bytes were never asked for", left)
			}
			c := h.fetch()
			k := int(c.CDW12+1) * size
			if k > h.c.maxTransfer || k > left || uint64(c.CDW10)|uint64(c.CDW11)<<32 != lba {
				t.Fatalf("a command of %d bytes at LBA %d, want %d; %d left, limit %d", k, uint64(c.CDW10)|uint64(c.CDW11)<<32, lba, left, h.c.maxTransfer)
			}
			pieces, wrong := walkPRP(h.f, &c, k)
			if wrong != "" {
				t.Fatal(wrong)
			}
			for _, p := range pieces {
				for i := range p {
					if p[i] != 0 {
						t.Fatal("a byte is described twice")
					}
					p[i] = stamp
				}
				want = append(want, bytes.Repeat([]byte{stamp}, len(p))...)
				if stamp++; stamp == 0 {
					stamp = 1
				}
			}
			left -= k
			lba += uint64(k / size)
			h.post(c.CID, h.fetched, 0)
			h.q.Poll(nil)
			h.q.reap(1)
		}
		if got := m.Bytes()[off : off+n]; !bytes.Equal(got, want) {
			t.Fatal("the pieces do not follow each other in the buffer")
		}
		for i, b := range m.Bytes() {
			if (i < off || i >= off+n) && b != 0 {
				t.Fatalf("byte %d beside the buffer was described", i)
			}
		}
	})
}

// newPRPHost has pages that are scattered in the controller's address space.
func newPRPHost(t *rapid.T) *host {
	f := &fakeTransport{next: 1 << 33, scatter: true}
	bar, err := f.Alloc(32 << 10)
	if err != nil {
		t.Fatal(err)
	}
	f.regs, err = NewRegisters(bar.buf)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{tr: f, regs: f.regs, cfg: cfg, queues: map[uint16]*QueuePair{}, stride: 4}
	c.maxTransfer = PageSize << rapid.IntRange(0, 10).Draw(t, "MDTS")
	h := &host{t: t, f: f, c: c, q: newQueuePair(c, 1, rapid.IntRange(2, 9).Draw(t, "depth"))}
	if err := h.q.allocate(QueueConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := h.q.attach(); err != nil {
		t.Fatal(err)
	}
	h.ns = &Namespace{ID: 1, Blocks: 1 << 40, ctrl: c}
	return h
}

func log2(n int) int {
	k := 0
	for 1<<k < n {
		k++
	}
	return k
}

// TestListBytes: the list area of a command fits what it may have to hold.
func TestListBytes(t *testing.T) {
	for _, x := range []struct{ transfer, want int }{
		{4096, 64}, {32 << 10, 64}, {64 << 10, 128}, {128 << 10, 256}, {1 << 20, 2048}, {2 << 20, 4096},
		{2<<20 + 4096, 2 * 4096}, {511 * 2 * 4096, 2 * 4096}, {511*2*4096 + 4096, 2 * 4096}, {511*2*4096 + 8192, 3 * 4096},
	} {
		if got := listBytes(x.transfer); got != x.want {
			t.Errorf("%d bytes: list of %d, want %d", x.transfer, got, x.want)
		}
	}
}
