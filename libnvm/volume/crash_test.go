package volume

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// history is what a script did to a volume, and so what a crash may leave.
type history struct {
	arrays map[string]*arrayHistory
}

type arrayHistory struct {
	pages   uint64
	created certainty
	flushed map[uint64]int   // version that a flush has made durable
	since   map[uint64][]int // versions written, or tried, after it
}

type certainty uint8

const (
	no certainty = iota
	maybe
	yes
)

// script does things to a volume until the power fails.
type script struct {
	t    testing.TB
	v    *Volume
	u    *user
	back *user  // a second queue, whose batch stays in flight for a while
	held *Batch // on it
	keep []heldPage
	h    *history
	rng  *rand.Rand
	open map[string]*Array
	next int // version
}

// run performs a random but repeatable sequence of operations.
func (s *script) run(steps int) error {
	for range steps {
		var err error
		switch s.rng.IntN(10) {
		case 0:
			err = s.create()
		case 1:
			err = s.remove()
		case 2, 3:
			err = s.flush()
		case 4:
			err = s.hold()
		default:
			err = s.write()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heldPage is a page of the batch that is in flight.
type heldPage struct {
	x    *arrayHistory
	page uint64
}

// hold starts a batch and leaves it in flight while other things go on:
// checkpoints and flushes must do without its completions. At the next call,
// and before anything that needs its arrays, it is waited for.
func (s *script) hold() error {
	if err := s.release(); err != nil {
		return err
	}
	for name, a := range s.sorted() {
		s.next++
		x := s.h.arrays[name]
		var reqs []Request
		for p := uint64(0); p < x.pages && len(reqs) < 4; p += 3 {
			copy(s.back.slot(len(reqs)), content(name, p, s.next))
			reqs = append(reqs, Request{Array: a, Page: p, Write: true, Mem: s.back.mem, Offset: len(reqs) * testPage})
			x.since[p] = append(x.since[p], s.next)
			s.keep = append(s.keep, heldPage{x, p})
		}
		b, err := s.back.q.Start(reqs, time.Minute)
		if err != nil {
			s.keep = nil
			return err
		}
		s.held = b
		for range s.rng.IntN(3) {
			s.back.q.Poll() // some pages complete, others do not
		}
	}
	return nil
}

func (s *script) release() error {
	if s.held == nil {
		return nil
	}
	err := s.back.q.Wait(s.t.Context(), s.held)
	s.held, s.keep = nil, nil
	return err
}

func (s *script) inFlight(x *arrayHistory, page uint64) bool {
	return slices.Contains(s.keep, heldPage{x, page})
}

func (s *script) create() error {
	name := fmt.Sprintf("array%d", s.rng.IntN(4))
	if s.h.arrays[name] != nil && s.h.arrays[name].created != no {
		return nil
	}
	x := &arrayHistory{pages: uint64(5 + s.rng.IntN(60)), created: maybe, flushed: map[uint64]int{}, since: map[uint64][]int{}}
	s.h.arrays[name] = x
	a, err := s.v.CreateArray(name, x.pages)
	if err != nil {
		return err
	}
	x.created = yes
	s.open[name] = a
	return nil
}

func (s *script) remove() error {
	name := fmt.Sprintf("array%d", s.rng.IntN(4))
	a := s.open[name]
	if a == nil {
		return nil
	}
	if err := s.release(); err != nil {
		return err
	}
	must(s.t, a.Close())
	delete(s.open, name)
	s.h.arrays[name].created = maybe
	if err := s.v.DeleteArray(name); err != nil {
		return err
	}
	s.h.arrays[name] = nil
	return nil
}

func (s *script) flush() error {
	if err := s.v.Flush(); err != nil {
		return err
	}
	for _, x := range s.h.arrays {
		if x == nil {
			continue
		}
		for p, versions := range x.since {
			if !s.inFlight(x, p) {
				x.flushed[p] = versions[len(versions)-1]
				delete(x.since, p)
			}
		}
	}
	return nil
}

// write writes a batch; a page may be written again before a flush.
func (s *script) write() error {
	for name, a := range s.sorted() {
		x := s.h.arrays[name]
		s.next++
		var pages []uint64
		for p := s.rng.Uint64N(x.pages); p < x.pages && len(pages) < s.u.n; p += 1 + s.rng.Uint64N(4) {
			if s.inFlight(x, p) {
				continue
			}
			pages = append(pages, p)
			x.since[p] = append(x.since[p], s.next)
		}
		if _, err := s.u.write(a, pages, s.next); err != nil {
			return err
		}
	}
	return nil
}

// sorted yields one array that is open, by chance but repeatably.
func (s *script) sorted() map[string]*Array {
	start := s.rng.IntN(4)
	for i := range 4 {
		name := fmt.Sprintf("array%d", (start+i)%4)
		if a := s.open[name]; a != nil {
			return map[string]*Array{name: a}
		}
	}
	return nil
}

// check compares a volume after a crash with what may be there.
func (h *history) check(t *testing.T, v *Volume, checksums bool) {
	t.Helper()
	there := map[string]bool{}
	for _, info := range v.Arrays() {
		there[info.Name] = true
		if x := h.arrays[info.Name]; x == nil || x.created == no || x.pages != info.Pages {
			t.Fatalf("array %+v is there, history %+v", info, x)
		}
	}
	u := newUser(t, v, 1)
	defer u.close()
	for name, x := range h.arrays {
		if x == nil || !there[name] {
			if x != nil && x.created == yes {
				t.Fatalf("array %s is lost", name)
			}
			continue
		}
		a, err := v.OpenArray(name)
		must(t, err)
		for p := range x.pages {
			got, err := u.read(a, p)
			x.checkPage(t, name, p, got, err, checksums)
		}
		must(t, a.Close())
	}
}

func (x *arrayHistory) checkPage(t *testing.T, name string, p uint64, got []byte, err error, checksums bool) {
	t.Helper()
	allowed := append([]int{x.flushed[p]}, x.since[p]...)
	var torn *TornPageError
	if errors.As(err, &torn) {
		if len(allowed) == 1 || !checksums {
			t.Fatalf("page %d of %s is called torn but was not being written: %v", p, name, err)
		}
		for _, n := range allowed {
			if bytes.Equal(got, content(name, p, n)) {
				t.Fatalf("page %d of %s is called torn but holds version %d of %v", p, name, n, allowed)
			}
		}
		return
	}
	if err != nil {
		t.Fatalf("page %d of %s, versions %v: %v", p, name, allowed, err)
	}
	if !checksums { // without them a torn page cannot be told: look at sectors
		for at := 0; at < testPage; at += 512 {
			ok := false
			for _, n := range allowed {
				ok = ok || bytes.Equal(got[at:at+512], content(name, p, n)[at:at+512])
			}
			if !ok {
				t.Fatalf("page %d of %s: sector %d is of none of the versions %v", p, name, at/512, allowed)
			}
		}
		return
	}
	for _, n := range allowed {
		if bytes.Equal(got, content(name, p, n)) {
			return
		}
	}
	t.Fatalf("page %d of %s holds none of the versions %v", p, name, allowed)
}

// play runs the script on a volume until the power fails after limit
// operations, and returns what it did and how many operations it took.
func play(t testing.TB, r *rig, seed uint64, limit, steps int) (*history, int) {
	s := &script{t: t, h: &history{map[string]*arrayHistory{}}, rng: rand.New(rand.NewPCG(seed, 2)), open: map[string]*Array{}}
	v, err := Open(r.members(limit))
	if err != nil {
		if !errors.Is(err, errPower) {
			t.Fatal(err)
		}
		return s.h, r.w.ops
	}
	s.v, s.u, s.back = v, newUser(t, v, 8), newUser(t, v, 4)
	if err = s.run(steps); err != nil && !errors.Is(err, errPower) {
		t.Fatal(err)
	}
	// Nothing is closed properly: the power is off, or about to be.
	return s.h, r.w.ops
}

// TestCrashAtEveryOperation cuts the power at every operation of a script,
// loses any part of what was not flushed, opens the volume again and checks
// that pages are old, new or called torn, and arrays there or not.
func TestCrashAtEveryOperation(t *testing.T) {
	seeds, stride := uint64(6), 1
	if testing.Short() {
		seeds, stride = 2, 7
	}
	for seed := range seeds {
		checksums := seed%3 != 2
		t.Run(fmt.Sprintf("seed %d checksums %v", seed, checksums), func(t *testing.T) {
			base := newRig(t, seed, 2<<20, 2<<20)
			if seed%2 == 0 {
				base = newRig(t, seed, 2<<20)
			}
			must(t, create(t, base, options(checksums)).Close())
			_, total := play(t, base.clone(seed), seed, -1, 60)
			for k := 0; k <= total; k += stride {
				crashOnce(t, base.clone(seed<<32|uint64(k)), seed, k, checksums)
			}
			t.Logf("%d crash points", total/stride+1)
		})
	}
}

// crashOnce is one crash, perhaps one more during recovery, and the check.
func crashOnce(t *testing.T, r *rig, seed uint64, k int, checksums bool) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, power failed after %d operations", seed, k)
		}
	}()
	h, _ := play(t, r, seed, k, 60)
	r.powerOff()
	if again := r.w.rng.IntN(40); again < 20 {
		if _, err := Open(r.members(again)); err != nil && !errors.Is(err, errPower) {
			t.Fatal(err)
		}
		r.powerOff()
	}
	v := reopen(t, r)
	h.check(t, v, checksums)
	h.overwrite(t, v)
	must(t, v.Close())
	r.powerOff()
	v = reopen(t, r)
	h.check(t, v, checksums)
	must(t, v.Close())
}

// overwrite writes every page anew: torn pages are whole again, and the
// history knows one version for each.
func (h *history) overwrite(t *testing.T, v *Volume) {
	t.Helper()
	u := newUser(t, v, 1)
	defer u.close()
	for _, info := range v.Arrays() {
		a, err := v.OpenArray(info.Name)
		must(t, err)
		x := h.arrays[info.Name]
		clear(x.since)
		x.created = yes
		for p := range info.Pages {
			_, err := u.write(a, []uint64{p}, 100000)
			must(t, err)
			x.flushed[p] = 100000
		}
		must(t, a.Close())
	}
}

// TestCrashDuringCreate: there is a volume or there is none, never half of one.
func TestCrashDuringCreate(t *testing.T) {
	for _, checksums := range []bool{false, true} {
		for k := 0; ; k++ {
			r := newRig(t, uint64(k), 2<<20, 2<<20)
			_, err := Create(r.members(k), options(checksums))
			if err != nil && !errors.Is(err, errPower) {
				t.Fatal(err)
			}
			finished := err == nil
			r.powerOff()
			v, err := Open(r.members(-1))
			var format *FormatError
			if err != nil && (finished || !errors.As(err, &format)) {
				t.Fatalf("power failed after %d operations, created %v: %v", k, finished, err)
			}
			if err == nil {
				must(t, v.Close())
			}
			o := options(checksums)
			o.Force = true
			must(t, create(t, r, o).Close())
			if finished {
				break
			}
		}
	}
}
