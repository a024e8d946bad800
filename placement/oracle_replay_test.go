package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// replay is a whole cache that is written as its paper has it, a miss being one
// step, with pages in slices from the oldest to the newest. access returns the
// page that it evicted, or None, and whether p was a hit.
type replay interface {
	access(p Page) (victim Page, hit bool)
}

// pop takes the oldest page out of *s.
func pop(s *[]Page) Page {
	p := (*s)[0]
	*s = slices.Clone((*s)[1:])
	return p
}

// take takes p out of *s and says whether it was there.
func take(s *[]Page, p Page) bool {
	n := len(*s)
	*s = without(*s, p)
	return len(*s) < n
}

// secondChance is clock as a queue.
type secondChance struct {
	frames int
	queue  []Page
	bit    map[Page]bool
}

func (o *secondChance) access(p Page) (Page, bool) {
	if slices.Contains(o.queue, p) {
		o.bit[p] = true
		return None, true
	}
	v := None
	for len(o.queue) == o.frames {
		v = pop(&o.queue)
		if o.bit[v] {
			o.bit[v] = false
			o.queue = append(o.queue, v)
		}
	}
	o.bit[p] = false
	o.queue = append(o.queue, p)
	return v, false
}

// arcFigure is figure 4 of the ARC paper, case by case.
type arcFigure struct {
	c              int
	p              float64
	t1, t2, b1, b2 []Page
}

func (o *arcFigure) access(x Page) (Page, bool) {
	v := None
	replace := func(inB2 bool) {
		if t1 := float64(len(o.t1)); t1 >= 1 && (inB2 && t1 == o.p || t1 > o.p) {
			v = pop(&o.t1)
			o.b1 = append(o.b1, v)
			return
		}
		v = pop(&o.t2)
		o.b2 = append(o.b2, v)
	}
	full := len(o.t1)+len(o.t2) == o.c
	switch {
	case take(&o.t1, x), take(&o.t2, x):
		o.t2 = append(o.t2, x)
		return None, true
	case slices.Contains(o.b1, x):
		o.p = min(float64(o.c), o.p+max(float64(len(o.b2))/float64(len(o.b1)), 1))
		replace(false)
		take(&o.b1, x)
		o.t2 = append(o.t2, x)
	case slices.Contains(o.b2, x):
		o.p = max(0, o.p-max(float64(len(o.b1))/float64(len(o.b2)), 1))
		replace(true)
		take(&o.b2, x)
		o.t2 = append(o.t2, x)
	default:
		switch l1, all := len(o.t1)+len(o.b1), len(o.t1)+len(o.b1)+len(o.t2)+len(o.b2); {
		case l1 == o.c && len(o.t1) < o.c:
			pop(&o.b1)
			replace(false)
		case l1 == o.c:
			v = pop(&o.t1)
		case all >= o.c:
			if all == 2*o.c {
				pop(&o.b2)
			}
			if full {
				replace(false)
			}
		}
		o.t1 = append(o.t1, x)
	}
	return v, false
}

// twoQPaper is 2Q, full version. A1out is asked before the eviction.
type twoQPaper struct {
	frames, kin, kout int
	in, out, main     []Page
}

func (o *twoQPaper) access(p Page) (Page, bool) {
	switch {
	case take(&o.main, p):
		o.main = append(o.main, p)
		return None, true
	case slices.Contains(o.in, p):
		return None, true
	}
	again := take(&o.out, p)
	v := None
	if len(o.in)+len(o.main) == o.frames {
		if len(o.in) > o.kin {
			v = pop(&o.in)
			o.out = append(o.out, v)
			if len(o.out) > o.kout {
				pop(&o.out)
			}
		} else {
			v = pop(&o.main)
		}
	}
	if again {
		o.main = append(o.main, p)
	} else {
		o.in = append(o.in, p)
	}
	return v, false
}

// s3Paper is S3-FIFO. The ghost queue is asked before the eviction.
type s3Paper struct {
	frames, smallCap, ghostCap int
	small, main, ghost         []Page
	uses                       map[Page]int
}

func (o *s3Paper) access(p Page) (Page, bool) {
	if slices.Contains(o.small, p) || slices.Contains(o.main, p) {
		o.uses[p] = min(o.uses[p]+1, 3)
		return None, true
	}
	again := take(&o.ghost, p)
	v := None
	for len(o.small)+len(o.main) == o.frames {
		if len(o.small) >= o.smallCap {
			v = o.evictSmall()
		} else {
			v = o.evictMain()
		}
	}
	o.uses[p] = 0
	if again {
		o.main = append(o.main, p)
	} else {
		o.small = append(o.small, p)
	}
	return v, false
}

func (o *s3Paper) evictSmall() Page {
	p := pop(&o.small)
	if o.uses[p] > 1 {
		o.uses[p] = 0
		o.main = append(o.main, p)
		return None
	}
	o.ghost = append(o.ghost, p)
	if len(o.ghost) > o.ghostCap {
		pop(&o.ghost)
	}
	return p
}

func (o *s3Paper) evictMain() Page {
	p := pop(&o.main)
	if o.uses[p] == 0 {
		return p
	}
	o.uses[p]--
	o.main = append(o.main, p)
	return None
}

// lirsPaper is LIRS: stack from bottom to top, queue from front to end.
type lirsPaper struct {
	frames, lirs, ghosts int
	stack, queue, gone   []Page
	lir                  []Page
}

func (o *lirsPaper) access(p Page) (Page, bool) {
	isLIR, isHIR := slices.Contains(o.lir, p), slices.Contains(o.queue, p)
	again := take(&o.gone, p)
	inStack := take(&o.stack, p)
	v := None
	if !isLIR && !isHIR && len(o.lir)+len(o.queue) == o.frames {
		v = pop(&o.queue)
		if slices.Contains(o.stack, v) {
			o.gone = append(o.gone, v)
		}
		if len(o.gone) > o.ghosts {
			take(&o.stack, pop(&o.gone))
		}
	}
	o.stack = append(o.stack, p)
	switch {
	case isLIR:
	case isHIR && inStack, again, !isHIR && len(o.lir) < o.lirs:
		take(&o.queue, p)
		o.lir = append(o.lir, p)
		o.prune()
		if len(o.lir) > o.lirs {
			bottom := pop(&o.stack)
			take(&o.lir, bottom)
			o.queue = append(o.queue, bottom)
		}
	default:
		take(&o.queue, p)
		o.queue = append(o.queue, p)
	}
	o.prune()
	return v, isLIR || isHIR
}

func (o *lirsPaper) prune() {
	for len(o.stack) > 0 && !slices.Contains(o.lir, o.stack[0]) {
		take(&o.gone, pop(&o.stack))
	}
}

// wtPaper is W-TinyLFU over the same sketch as the policy's.
type wtPaper struct {
	window, main, keep        int // frames of window, main area and protected
	win, probation, protected []Page
	sketch                    sketch
}

func (o *wtPaper) access(p Page) (Page, bool) {
	hit := true
	v := None
	switch {
	case take(&o.win, p):
		o.win = append(o.win, p)
	case take(&o.probation, p), take(&o.protected, p):
		o.protected = append(o.protected, p)
		if len(o.protected) > o.keep {
			o.probation = append(o.probation, pop(&o.protected))
		}
	default:
		hit = false
		o.win = append(o.win, p)
		if len(o.win) > o.window {
			v = o.admit(pop(&o.win))
		}
	}
	o.sketch.add(p)
	return v, hit
}

// admit lets c into the main area or returns it, or returns what it displaced.
func (o *wtPaper) admit(c Page) Page {
	if len(o.probation)+len(o.protected) < o.main {
		o.probation = append(o.probation, c)
		return None
	}
	from := &o.probation
	if len(*from) == 0 {
		from = &o.protected
	}
	if o.sketch.estimate(c) <= o.sketch.estimate((*from)[0]) {
		return c
	}
	v := pop(from)
	o.probation = append(o.probation, c)
	return v
}

// TestReplayOracles compares hits and victims, access by access.
func TestReplayOracles(t *testing.T) {
	const most = 30
	for _, c := range []struct {
		name     string
		smallest int
		make     func(frames, pages int) (Evictor, error)
		oracle   func(frames int) replay
	}{
		{"clock", 1, func(n, pages int) (Evictor, error) { return NewClock(n, pages) },
			func(n int) replay { return &secondChance{frames: n, bit: map[Page]bool{}} }},
		{"arc", 1, func(n, pages int) (Evictor, error) { return NewARC(n, pages) },
			func(n int) replay { return &arcFigure{c: n} }},
		{"2q", 2, func(n, pages int) (Evictor, error) { return New2Q(n, pages, TwoQParams{}) },
			func(n int) replay { return &twoQPaper{frames: n, kin: max(1, n/4), kout: max(1, n/2)} }},
		{"s3-fifo", 2, func(n, pages int) (Evictor, error) { return NewS3FIFO(n, pages, S3FIFOParams{}) },
			func(n int) replay {
				small := max(1, n/10)
				return &s3Paper{frames: n, smallCap: small, ghostCap: n - small, uses: map[Page]int{}}
			}},
		{"lirs", 2, func(n, pages int) (Evictor, error) { return NewLIRS(n, pages, LIRSParams{HIR: 0.25, Ghost: 0.5}) },
			func(n int) replay { return &lirsPaper{frames: n, lirs: n - max(1, n/4), ghosts: max(1, n/2)} }},
		{"w-tinylfu", 3, func(n, pages int) (Evictor, error) {
			return NewWTinyLFU(n, pages, WTinyLFUParams{Window: 0.25, Seed: 9})
		},
			func(n int) replay {
				window := max(1, n/4)
				return &wtPaper{window: window, main: n - window, sketch: newSketch(n, 10*n, 9),
					keep: max(1, min(n-window-1, int(0.8*float64(n-window))))}
			}},
	} {
		t.Run(c.name, rapid.MakeCheck(func(t *rapid.T) {
			frames := c.smallest + rapid.SampledFrom([]int{0, 1, 2, 4, 7, 12, 20, 27}).Draw(t, "frames")
			e, err := c.make(frames, 3*most)
			if err != nil {
				t.Fatal(err)
			}
			compareReplay(t, e, c.oracle(frames), frames)
		}))
	}
}

func compareReplay(t *rapid.T, e Evictor, o replay, frames int) {
	rng := source(t)
	pages := 1 + rng.IntN(3*frames)
	resident := map[Page]bool{}
	for i := range 1500 {
		p, v := Page(rng.IntN(1+rng.IntN(pages))), None
		hit := resident[p]
		if hit {
			e.Hit(p)
		} else {
			if e.Len() == e.Cap() {
				v = e.Victim(p, nil)
			}
			e.Insert(p)
			delete(resident, v)
			resident[p] = true
		}
		wantVictim, wantHit := o.access(p)
		if hit != wantHit || v != wantVictim {
			t.Fatalf("access %d to page %d: hit %v, victim %d; want %v, %d", i, p, hit, int32(v), wantHit, int32(wantVictim))
		}
	}
}
