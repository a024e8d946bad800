package selftest

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
)

func TestMemoryOpsOnGPU(t *testing.T) {
	g := openGPU(t)
	want := results()
	out, p := g.host(len(want) + 3)
	g.ok(g.MemoryOps(g.stream, grid(1, 1), g.device(1), g.device(1), g.device(4), p))
	g.done()
	for i, w := range want {
		if out[i] != w {
			t.Fatalf("result %d of %d: got %#x, want %#x", i, len(want), out[i], w)
		}
	}
	rest := out[len(want):]
	if rest[0] != 1 || rest[1] != 1 {
		t.Errorf("16-byte load right: %d, store right: %d", rest[0], rest[1])
	}
	// 100 sleeps of at most twice 100 us; how short one may be is not said.
	if rest[2] == 0 || rest[2] > uint64(time.Second) {
		t.Errorf("100 sleeps of 100 us took %v", time.Duration(rest[2]))
	}
}

// warpWant is row i of warp_ops for a lane.
func warpWant(lane uint32) []uint64 {
	wide := func(l uint32) uint64 { return uint64(l)<<40 | uint64(l) }
	from := func(l uint32, ok bool) uint32 { // a shuffle beyond its segment gives the lane's own value
		if ok {
			return l
		}
		return lane
	}
	third := uint32(7) << (lane / 3 * 3)
	rank, leader := uint64(lane/2), uint64(0) // among the odd lanes
	if lane == 1 {
		leader = 1
	}
	all := uint64(31*32/2)<<40 | 31*32/2
	zeros, zeros64 := bits.LeadingZeros32(lane), bits.LeadingZeros64(wide(lane))
	first, first64 := (bits.TrailingZeros32(lane)+1)%33, (bits.TrailingZeros64(wide(lane)<<8)+1)%65
	active := uint64(0)
	if lane%4 == 0 {
		active = 0x11111111
	}
	return []uint64{
		uint64(lane), 0xaaaaaaaa, wide((lane + 5) % 32), uint64(from(lane-3, lane >= 3)), wide(from(lane+3, lane < 29)),
		uint64(lane ^ 9), uint64(lane/8*8 + 1), uint64(from(lane+2, lane%16 < 14)),
		uint64(third), 0xf << (lane / 4 * 4), 1, 0, all, 31, wide(17), 1<<lane - 1, rank, leader,
		uint64(bits.OnesCount32(lane) | bits.OnesCount64(wide(lane))<<8), uint64(first | first64<<8), uint64(zeros | zeros64<<8),
		uint64(bits.Reverse32(lane)), active, 32,
	}
}

func TestWarpOpsOnGPU(t *testing.T) {
	g := openGPU(t)
	out, p := g.host(warpRows * 32)
	g.ok(g.WarpOps(g.stream, grid(1, 32), p))
	g.done()
	for lane := range uint32(32) {
		want := warpWant(lane)
		if len(want) != warpRows {
			t.Fatalf("the kernel writes %d rows, the test knows %d", warpRows, len(want))
		}
		for row, w := range want {
			if got := out[uint32(row)*32+lane]; got != w {
				t.Errorf("row %d, lane %d: got %#x, want %#x", row, lane, got, w)
			}
		}
	}
}

func TestGeometryOnGPU(t *testing.T) {
	g := openGPU(t)
	cfg := cuda.LaunchConfig{Grid: cuda.Dim{X: 2, Y: 3, Z: 4}, Block: cuda.Dim{X: 5, Y: 3, Z: 2}}
	out, p := g.host32(4 * 24 * 30)
	g.ok(g.Geometry(g.stream, cfg, p))
	g.done()
	for i := range uint32(24 * 30) {
		b, th := i/30, i%30
		want := []uint32{b%2 | b/2%3<<8 | b/6<<16, th%5 | th/5%3<<8 | th/15<<16, 2 | 3<<8 | 4<<16, 5 | 3<<8 | 2<<16}
		if got := out[4*i : 4*i+4]; !slices.Equal(got, want) {
			t.Fatalf("thread %d: got %#x, want %#x", i, got, want)
		}
	}
}

func TestParametersOnGPU(t *testing.T) {
	g := openGPU(t)
	out, p := g.host(17 + 6)
	m := mail{kind: 0xdeadbeef, tag: 0xabcd, words: [6]uint64{1, 2, 3, 1 << 63, 5, math.MaxUint64}}
	for _, last := range []bool{true, false} { // the second block is packed over the first
		g.ok(g.Parameters(g.stream, grid(1, 1), p, 0xf1, -2, 0xfff3, -4, !last, 0xfffffff5, -6, 0x77, 1<<63|8, -9, -1.5, math.Pi, 1<<40, 1, &m, last))
		g.done()
		flag := func(b bool) uint64 {
			if b {
				return 1
			}
			return 0
		}
		minus := func(n int64) uint64 { return uint64(-n) }
		want := append([]uint64{0xf1, minus(2), 0xfff3, minus(4), flag(!last), 0xfffffff5, minus(6), 0x77, 1<<63 | 8, minus(9),
			uint64(math.Float32bits(-1.5)), math.Float64bits(math.Pi), 1 << 40, 1, 0xdeadbeef, 0xabcd, flag(last)}, m.words[:]...)
		if !slices.Equal(out, want) {
			t.Errorf("got  %#x\nwant %#x", out, want)
		}
	}
}

func TestBlockSumOnGPU(t *testing.T) {
	g := openGPU(t)
	const blocks = 8
	values, vp := g.host32(blocks * 256)
	out, op := g.host32(blocks * 2)
	for i := range values {
		values[i] = uint32(i*i*2654435761) >> 3
	}
	cfg := grid(blocks, 256)
	cfg.SharedBytes = 1024
	g.ok(g.BlockSum(g.stream, cfg, vp, op))
	g.done()
	for b := range blocks {
		var sum, odd uint32
		for _, v := range values[b*256 : b*256+256] {
			sum, odd = sum+v, odd+v%2
		}
		if out[2*b] != sum || out[2*b+1] != odd {
			t.Errorf("block %d: sum %d, %d odd; want %d, %d", b, out[2*b], out[2*b+1], sum, odd)
		}
	}
}

func TestCUDANamesOnGPU(t *testing.T) {
	g := openGPU(t)
	pairs, pp := g.host(128)
	out, op := g.host(129)
	for i := range pairs {
		pairs[i] = 1<<40 + uint64(i*i)
	}
	g.ok(g.CudaNames(g.stream, grid(1, 64), op, pp))
	g.done()
	for i, v := range pairs {
		if want := v + uint64(63-i/2+i%2); out[i] != want {
			t.Errorf("word %d: got %#x, want %#x", i, out[i], want)
		}
	}
	if out[128] != 3 {
		t.Errorf("the votes of the block: got %b, want 11", out[128])
	}
}

func TestMessagesOnGPU(t *testing.T) {
	g := openGPU(t)
	const pairs, rounds = 32, 20000
	failures := g.device(1)
	g.ok(g.Messages(g.stream, grid(2*pairs, 32), g.device(pairs*16), g.device(pairs), failures, rounds))
	if n := g.fetch(failures, 1)[0]; n != 0 {
		t.Errorf("%d wrong words, %d waits without an answer", n%(1<<20), n>>20)
	}
}

func TestContentionOnGPU(t *testing.T) {
	g := openGPU(t)
	const blocks, threads, times = 64, 96, 50
	sums := g.device(9)
	g.ok(g.Contend(g.stream, grid(blocks, threads), sums, g.device(1), times))
	for i, n := range g.fetch(sums, 9) {
		want := uint64(blocks * threads * times)
		if i == 8 {
			want = blocks * times // under the lock, one thread a block
		}
		if n != want {
			t.Errorf("sum %d: got %d, want %d", i, n, want)
		}
	}
}

// The CPU's side uses Go's atomics, which are at least as strong as the
// acquire and release that the GPU uses.
func TestConversationWithTheCPU(t *testing.T) {
	g := openGPU(t)
	const rounds = 20000
	ask, askPtr := g.host(7)
	asked, askedPtr := g.host32(2)
	answer, answerPtr := g.host(7)
	answered, answeredPtr := g.host32(2)
	failures := g.device(1)
	g.ok(g.Converse(g.stream, grid(1, 32), askPtr, askedPtr, answerPtr, answeredPtr, rounds, failures))
	deadline := time.Now().Add(30 * time.Second)
	for round := uint32(1); round <= rounds; round++ {
		for i := range ask {
			ask[i] = uint64(round)*100 + uint64(i)
		}
		atomic.StoreUint32(&asked[0], round)
		for atomic.LoadUint32(&answered[0]) != round {
			if time.Now().After(deadline) {
				t.Fatalf("no answer in round %d", round)
			}
		}
		for i, v := range answer {
			if v != ^ask[i] {
				t.Fatalf("round %d, word %d: got %#x, want %#x", round, i, v, ^ask[i])
			}
		}
	}
	g.done()
	if n := g.fetch(failures, 1)[0]; n != 0 {
		t.Errorf("%d wrong words, %d waits without a question", n%(1<<20), n>>20)
	}
}

func TestVariantsOnGPU(t *testing.T) {
	g := openGPU(t)
	k, err := loadVariants(g.ctx)
	g.ok(err)
	g.closeLater(k.Close)
	major, minor := g.ctx.Device().ComputeCapability()
	want := uint32(700)
	for _, c := range []int{80, 90} {
		if 10*major+minor >= c {
			want = uint32(10 * c)
		}
	}
	out, p := g.host32(2)
	g.ok(k.CompiledFor(g.stream, grid(1, 1), p))
	g.ok(k.WriteMagic(g.stream, grid(1, 1), p.Add(4)))
	g.done()
	if out[0] != want || out[1] != variantMagic {
		t.Errorf("compiled for %d with magic %#x, want %d and %#x", out[0], out[1], want, variantMagic)
	}
}

func TestLaunchDoesNotAllocate(t *testing.T) {
	g := openGPU(t)
	_, p := g.host32(4)
	if n := testing.AllocsPerRun(200, func() { g.ok(g.Geometry(g.stream, grid(1, 1), p)) }); n != 0 {
		t.Errorf("a launch allocates %v times", n)
	}
	g.done()
}

func TestPlacementOnGPU(t *testing.T) {
	g := openGPU(t)
	const blocks = 256
	processors, err := g.ctx.Device().Attribute(cuda.MultiprocessorCount)
	g.ok(err)
	sm, smPtr := g.host32(blocks)
	clocks, clocksPtr := g.host(2 * blocks)
	g.ok(g.Placement(g.stream, grid(blocks, 32), smPtr, clocksPtr))
	g.done()
	used := map[uint32]bool{}
	for i := range blocks {
		used[sm[i]] = true
		if apart := int64(clocks[2*i] - clocks[0]); apart > int64(time.Second) || -apart > int64(time.Second) {
			t.Errorf("the clocks of blocks 0 and %d are %v apart", i, time.Duration(apart))
		}
		if clocks[2*i+1] == 0 {
			t.Errorf("block %d: the cycle counter stands still", i)
		}
	}
	if len(used) < min(2, processors) || len(used) > processors {
		t.Errorf("%d blocks ran on %d of %d multiprocessors", blocks, len(used), processors)
	}
}
