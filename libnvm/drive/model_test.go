package drive

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// The drives of an array together move each command's bytes, once.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stripes := rapid.Uint64Range(1, 300).Draw(t, "stripes")
		n := rapid.Uint64Range(1, 8).Draw(t, "drives")
		bytes := int64(stripes)*stripe - rapid.Int64Range(0, stripe-1).Draw(t, "short")
		sum := int64(0)
		for i := range min(stripes, n) {
			s := share(bytes, stripes, n, i)
			if s <= 0 {
				t.Fatalf("drive %d moves %d bytes", i, s)
			}
			sum += s
		}
		if sum != bytes {
			t.Fatalf("%d bytes in %d stripes over %d drives: they move %d", bytes, stripes, n, sum)
		}
	})
}

// Four modelled drives give four times the reads of one, and one command that
// touches all of them is done as fast as its parts.
func TestArrayPacer(t *testing.T) {
	m, err := servicetime.Load("4x980pro")
	if err != nil {
		t.Fatal(err)
	}
	last := func(p part, bytes int64, n int) time.Duration {
		a := newArrayPacer(m, 1, p)
		var end time.Duration
		for i := range n {
			c := soft.CommandInfo{Queue: 1, Opcode: libnvm.OpRead, LBA: uint64(i) * uint64(bytes) / 512, Blocks: uint32(bytes / 512), Bytes: bytes}
			end = max(end, a.Finish(0, &c))
		}
		return end
	}
	const n = 100_000
	whole, quarter := last(part{0, 1}, 4096, n), last(part{0, 4}, 4096, n)
	if whole < 24*time.Millisecond || whole > 35*time.Millisecond { // 4 M IOPS
		t.Errorf("%d reads of 4 KiB by four drives: %v, want about 25 ms", n, whole)
	}
	if r := float64(quarter) / float64(whole); r < 3.5 || r > 4.5 {
		t.Errorf("one drive takes %v, %.1f times as long as four", quarter, r)
	}
	if large := last(part{0, 1}, 1<<20, 1000); large < 41*time.Millisecond || large > 46*time.Millisecond { // 25 GB/s
		t.Errorf("1000 reads of 1 MiB by four drives: %v, want about 42 ms", large)
	}
	for _, c := range []soft.CommandInfo{{Queue: 1, Opcode: libnvm.OpFlush}, {Opcode: libnvm.AdminIdentify, Blocks: 1, Bytes: 4096}} {
		if got := newArrayPacer(m, 1, part{0, 1}).Finish(5, &c); got != 5 {
			t.Errorf("%+v is paced: %v", c, got)
		}
	}
}
