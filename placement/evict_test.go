package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// script plays a history against an evictor and returns the victims. Words:
// "+3" inserts page 3, "=3" hits it, "-3" removes it, "?3" asks for a victim
// that makes room for page 3.
func script(t *testing.T, e Evictor, words string) string {
	t.Helper()
	var victims []string
	for _, w := range strings.Fields(words) {
		var p Page
		if _, err := fmt.Sscan(w[1:], &p); err != nil {
			t.Fatal(err)
		}
		switch w[0] {
		case '+':
			e.Insert(p)
		case '=':
			e.Hit(p)
		case '-':
			e.Remove(p)
		case '?':
			victims = append(victims, fmt.Sprint(e.Victim(p, nil)))
		}
	}
	return strings.Join(victims, " ")
}

// TestWorkedHistories is what each policy promises beyond its paper: kept
// victims, removed pages, failed fills and free slots.
func TestWorkedHistories(t *testing.T) {
	must := func(e Evictor, err error) Evictor {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, c := range []struct {
		what    string
		e       Evictor
		history string
		victims string
	}{
		{"clock: the page that took a freed slot waits for a whole turn of the hand",
			must(NewClock(3, 9)), "+0 +1 +2 ?3 +3 -1 +4 ?5 ?5 ?5", "0 4 2 3"},
		{"clock: the slot freed last is used first",
			must(NewClock(3, 9)), "+0 +1 +2 -0 -2 +3 +4 ?5 ?5 ?5", "4 1 3"},
		{"sieve: a kept victim is the newest page and unvisited",
			must(NewSieve(2, 9)), "+0 +1 ?2 +0 ?2 ?2", "0 1 0"},
		{"lfu: an eviction forgets the count",
			must(NewLFU(2, 9)), "+0 =0 =0 +1 =1 =1 =1 ?2 +2 ?0 +0 ?3", "0 2 0"},
		{"lfu: among equals the least recently used leaves",
			must(NewLFU(3, 9)), "+0 +1 +2 =2 =0 =1 ?3 ?3 ?3", "2 0 1"},
		{"arc: a miss that B1 remembers gives T1 a frame more, so that T2 has the next victims",
			must(NewARC(2, 9)), "+0 =0 +1 ?2 +2 ?1 +1 ?3 +3 ?4", "1 0 1 2"},
		{"arc: a kept victim enters T1 as a new page, without a ghost hit",
			must(NewARC(2, 9)), "+0 =0 +1 ?2 +1 ?2 +2 ?3", "1 1 2"},
		{"arc: no ghost remembers a removed page",
			must(NewARC(2, 9)), "+0 =0 +1 -1 +1 ?3", "1"},
		{"2q: a page that A1out remembers enters Am",
			must(New2Q(4, 9, TwoQParams{})), "+0 +1 +2 +3 ?4 +4 ?0 +0 ?5 +5 ?6 +6 ?7", "0 1 2 3 4"},
		{"2q: a kept victim enters A1in again",
			must(New2Q(4, 9, TwoQParams{})), "+0 +1 +2 +3 ?4 +0 ?4 ?4 ?4 ?4", "0 1 2 3 0"},
		{"s3-fifo: a page that the ghost queue remembers enters main",
			must(NewS3FIFO(4, 9, S3FIFOParams{})), "+0 +1 +2 +3 ?4 +4 ?0 +0 ?5 +5 ?6 +6 ?7 +7", "0 1 2 3 4"},
		{"s3-fifo: one use in the small queue does not promote, two do",
			must(NewS3FIFO(4, 9, S3FIFOParams{})), "+0 =0 +1 =1 =1 +2 +3 ?4 ?4 ?4 ?4", "0 2 3 1"},
		{"lirs: the only HIR page leaves before LIR pages that are older",
			must(NewLIRS(3, 9, LIRSParams{})), "+0 +1 +2 ?3 +3 ?4 +4", "2 3"},
		{"lirs: a page used again while the stack remembers it becomes LIR",
			must(NewLIRS(3, 9, LIRSParams{})), "+0 +1 +2 ?3 +3 ?2 +2 ?4", "2 3 0"},
		{"w-tinylfu: a page used once does not displace one used twice",
			must(NewWTinyLFU(3, 9, WTinyLFUParams{Seed: 1})), "+0 =0 +1 =1 +2 ?3 +3 ?4", "2 3"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := script(t, c.e, c.history); got != c.victims {
				t.Errorf("history %q: victims %q, want %q", c.history, got, c.victims)
			}
		})
	}
}

func TestBadParams(t *testing.T) {
	for _, c := range []struct{ want, got error }{
		{fmt.Errorf("small=1.5"), s3Err(S3FIFOParams{Small: 1.5})},
		{fmt.Errorf("ghost=-1"), s3Err(S3FIFOParams{Ghost: -1})},
		{fmt.Errorf("cap=64"), s3Err(S3FIFOParams{Cap: 64})},
		{fmt.Errorf("promote=3"), s3Err(S3FIFOParams{Promote: 3})},
		{fmt.Errorf("kin=1"), secondOf(New2Q(10, 9, TwoQParams{Kin: 1}))},
		{fmt.Errorf("kout=-0.5"), secondOf(New2Q(10, 9, TwoQParams{Kout: -0.5}))},
		{fmt.Errorf("hir=2"), secondOf(NewLIRS(10, 9, LIRSParams{HIR: 2}))},
		{fmt.Errorf("ghost=-2"), secondOf(NewLIRS(10, 9, LIRSParams{Ghost: -2}))},
		{fmt.Errorf("window=1"), secondOf(NewWTinyLFU(10, 9, WTinyLFUParams{Window: 1}))},
		{fmt.Errorf("protected=7"), secondOf(NewWTinyLFU(10, 9, WTinyLFUParams{Protected: 7}))},
		{fmt.Errorf("reset=-1"), secondOf(NewWTinyLFU(10, 9, WTinyLFUParams{Reset: -1}))},
		{fmt.Errorf("in advance"), secondOf(NewBelady(10, 9, nil))},
		{fmt.Errorf("access 1 is to page 9"), secondOf(NewFuture([]uint32{0, 9 << 2}, 9))},
	} {
		if c.got == nil || !strings.Contains(c.got.Error(), c.want.Error()) {
			t.Errorf("error %v does not say %q", c.got, c.want)
		}
	}
}

func s3Err(p S3FIFOParams) error           { return secondOf(NewS3FIFO(10, 9, p)) }
func secondOf[T any](_ T, err error) error { return err }

// TestRandomIsUniform: each resident page leaves about equally often, and a
// second eviction for the same page draws anew.
func TestRandomIsUniform(t *testing.T) {
	const frames, draws = 16, 32000
	r, err := NewRandom(frames, frames, 5)
	if err != nil {
		t.Fatal(err)
	}
	for p := range Page(frames) {
		r.Insert(p)
	}
	var left [frames]int
	for range draws {
		v := r.Victim(None, nil)
		left[v]++
		r.Insert(v)
	}
	for p, n := range left {
		if n < draws/frames*8/10 || n > draws/frames*12/10 {
			t.Errorf("page %d left %d times of %d, want about %d", p, n, draws, draws/frames)
		}
	}
}

// TestBeladySecondTier: a page demoted into a Belady tier is filed under its
// next use after now; a page promoted out of it, whose use is now, is found.
func TestBeladySecondTier(t *testing.T) {
	accesses := []uint32{0, 1 << 2, 2 << 2, 0, 2 << 2, 1 << 2} // pages 0 1 2 0 2 1
	f, err := NewFuture(accesses, 4)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBelady(3, 4, f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(3) {
		f.At(i)
	}
	for p := range Page(4) { // next uses at time 2: 3, 5, 4 and never
		if want := []uint32{3, 5, 4, Never}[p]; f.Use(p) != want {
			t.Errorf("next use of page %d is %d, want %d", p, f.Use(p), want)
		}
	}
	b.Insert(0)
	b.Insert(1)
	b.Insert(3)
	f.At(3)
	b.Remove(0) // promoted by the access at 3
	f.At(4)
	b.Insert(0) // demoted again: not used after 3
	for _, want := range []Page{3, 0, 1, None} {
		if v := b.Victim(2, nil); v != want {
			t.Errorf("victim is %d, want %d", v, want)
		}
	}
}

// TestBeladyIsOptimal: two-tier misses equal those of a plain search.
func TestBeladyIsOptimal(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		frames, pages := 1+rng.IntN(12), 20
		accesses := make([]uint32, 500)
		for i := range accesses {
			accesses[i] = uint32(rng.IntN(1+rng.IntN(pages))) << 2
		}
		f, err := NewFuture(accesses, pages)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewBelady(frames, pages, f)
		if err != nil {
			t.Fatal(err)
		}
		var resident []uint32
		for i, a := range accesses {
			f.At(uint32(i))
			if slices.Contains(resident, a) {
				b.Hit(Page(a >> 2))
				continue
			}
			if b.Len() == frames {
				distance := func(a uint32) int {
					if d := slices.Index(accesses[i+1:], a); d >= 0 {
						return d
					}
					return len(accesses)
				}
				v := uint32(b.Victim(Page(a>>2), nil)) << 2
				for _, other := range resident {
					if distance(other) > distance(v) {
						t.Fatalf("seed %d, access %d: page %d left, but page %d is used later", seed, i, v>>2, other>>2)
					}
				}
				resident = slices.DeleteFunc(resident, func(r uint32) bool { return r == v })
			}
			b.Insert(Page(a >> 2))
			resident = append(resident, a)
		}
	}
}

// TestTimeSet compares with a sorted slice, over three levels of bitmaps.
func TestTimeSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 64, 65, 5000, 300_000}).Draw(t, "size")
		rng := source(t)
		s, want := newTimeSet(size), []uint32{}
		for range 60 {
			at := uint32(rng.IntN(size))
			i, found := slices.BinarySearch(want, at)
			if !found {
				s.add(at)
				want = slices.Insert(want, i, at)
			} else if rng.IntN(3) > 0 {
				s.remove(at)
				want = slices.Delete(want, i, i+1)
			}
			if rng.IntN(4) == 0 && len(want) > 0 {
				s.remove(want[len(want)-1])
				want = want[:len(want)-1]
			}
			var got []uint32
			for at := s.latest(); at != Never && len(got) <= len(want); at = s.before(at) {
				got = append(got, at)
			}
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Fatalf("members %v, want %v", got, want)
			}
		}
	})
}

// TestSketch: an estimate is never below the true count up to 15, is mostly
// exact with few pages, and is halved once per period.
func TestSketch(t *testing.T) {
	const pages = 200
	s := newSketch(pages, 1<<30, 3)
	rng := rand.New(rand.NewPCG(1, 1))
	var uses [pages]uint64
	for range 1200 {
		p := rng.IntN(1 + rng.IntN(pages))
		uses[p]++
		s.add(Page(p))
	}
	exact := 0
	for p, n := range uses {
		got := s.estimate(Page(p))
		if got < min(n, 15) || got > 15 {
			t.Errorf("page %d: estimate %d of %d uses", p, got, n)
		}
		if got == min(n, 15) {
			exact++
		}
	}
	if exact < pages*9/10 {
		t.Errorf("%d of %d estimates are exact, want nine tenths", exact, pages)
	}

	h := newSketch(pages, 10, 3)
	for range 9 {
		h.add(7)
	}
	if got := h.estimate(7); got != 9 {
		t.Errorf("estimate %d before the period is over, want 9", got)
	}
	h.add(7)
	for range 9 {
		h.add(7)
	}
	if got := h.estimate(7); got != 5+9 {
		t.Errorf("estimate %d, want (9+1)/2 + 9", got)
	}
}

// TestGrown: growing page by page copies seldom and wastes at most a quarter.
func TestGrown(t *testing.T) {
	var s []int32
	copies := 0
	for n := range 100_000 {
		before := len(s)
		s = grown(s, n+1)
		if len(s) != before {
			copies++
		}
		if len(s) > n+1+n/4+1 {
			t.Fatalf("%d entries for %d", len(s), n+1)
		}
		s[n]++
	}
	if copies > 60 {
		t.Errorf("%d copies, want about log(100000)/log(1.25)", copies)
	}
}
