package volume

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// tableRig is a volume of which page p of the array "a" holds version 1 + p%3,
// closed properly after several checkpoints.
func tableRig(t *testing.T) (r *rig, first uint64, table int64) {
	t.Helper()
	r = newRig(t, 1, 3<<20)
	v := create(t, r, options(true))
	a, err := v.CreateArray("a", 60)
	must(t, err)
	u := newUser(t, v, 8)
	for _, last := range []bool{false, true} {
		for p := range a.Pages() {
			version := 1 + int(p%3)
			if !last {
				version = 9
			}
			_, err := u.write(a, []uint64{p}, version)
			must(t, err)
		}
	}
	first, table = a.info.First, v.tableOffset(0)
	u.close()
	must(t, a.Close())
	must(t, v.Close())
	return r, first, table
}

// flips are bits of a table block: of its header, of a sum in use, at its end.
var flips = []int64{0, 9, 17, 25, tableHeader + 8*7, tableBlock - 1}

// pagesOK reads every page and compares it.
func pagesOK(t *testing.T, v *Volume) {
	t.Helper()
	a, err := v.OpenArray("a")
	must(t, err)
	u := newUser(t, v, 1)
	for p := range a.Pages() {
		u.expect(a, p, 1+int(p%3))
	}
	u.close()
	must(t, a.Close())
}

// TestOneDamagedTableCopyIsHarmless: whichever copy the storage damages, every
// page still verifies, and Scrub repairs the copy.
func TestOneDamagedTableCopyIsHarmless(t *testing.T) {
	base, first, table := tableRig(t)
	for c := range int64(2) {
		for _, bit := range flips {
			t.Run(fmt.Sprintf("copy %d, byte %d", c, bit), func(t *testing.T) {
				r := base.clone(3)
				r.t = t
				for _, at := range []int64{c, 1 - c, c} { // repaired, so that the other may go
					r.disks[0].durable[table+at*tableBlock+bit] ^= 4
					v := reopen(t, r)
					pagesOK(t, v)
					if rep, err := v.Scrub(t.Context(), nil); err != nil || !rep.OK() || rep.Repaired != 1 {
						t.Fatalf("scrub: %+v, %v; want one copy repaired", rep, err)
					}
					r.disks[0].durable[table+at*tableBlock+bit] ^= 4 // under its memory
					if rep, err := v.Scrub(t.Context(), nil); err != nil || !rep.OK() || rep.Repaired != 1 {
						t.Fatalf("scrub of what is in memory: %+v, %v; want one copy repaired", rep, err)
					}
					if rep, err := v.Scrub(t.Context(), nil); err != nil || rep.Repaired != 0 {
						t.Fatalf("scrub after the repair: %+v, %v", rep, err)
					}
					must(t, v.Close())
				}
				// A page that is really corrupt is still found.
				r.disks[0].durable[table+c*tableBlock+bit] ^= 4
				v := reopen(t, r)
				_, off := v.locate(first + 5)
				r.disks[0].durable[off+3] ^= 1
				if rep, err := v.Scrub(t.Context(), nil); err != nil || rep.Corrupt != 1 || rep.Failed+rep.Torn != 0 {
					t.Fatalf("scrub: %+v, %v; want one corrupt page", rep, err)
				}
				must(t, v.Close())
			})
		}
	}
}

// TestDamagedTableCopyAndCrash: the same with a crash after it at every
// operation, in the middle of the checkpoint that replaces the copies included,
// or with the damage done after the crash, once everything was flushed.
func TestDamagedTableCopyAndCrash(t *testing.T) {
	base, _, table := tableRig(t)
	for c := range int64(2) {
		for _, before := range []bool{true, false} {
			crashes := 0
			for k := 0; ; k++ {
				r := base.clone(uint64(k))
				r.t = t
				if before {
					r.disks[0].durable[table+c*tableBlock+40] ^= 4
				}
				wrote, finished := crashWhileWriting(t, r, k)
				if !before { // not in the middle of a write to the other copy
					for _, d := range r.disks {
						d.flush()
					}
					r.disks[0].durable[table+c*tableBlock+40] ^= 4
				} else {
					r.powerOff()
				}
				v := reopen(t, r)
				bad := noneBad(t, v, wrote)
				must(t, v.Close())
				if bad != "" {
					t.Fatalf("copy %d damaged, before the crash: %v, crash after %d operations: %s", c, before, k, bad)
				}
				if finished {
					break
				}
				crashes++
			}
			if crashes < 20 {
				t.Errorf("only %d crashes", crashes)
			}
		}
	}
}

// crashWhileWriting writes some pages and closes the volume, until the power
// fails after limit operations.
func crashWhileWriting(t *testing.T, r *rig, limit int) (wrote map[uint64]bool, finished bool) {
	wrote = map[uint64]bool{}
	ignore := func(err error) bool {
		if err != nil && !errors.Is(err, errPower) {
			t.Fatal(err)
		}
		return err != nil
	}
	v, err := Open(r.members(limit))
	if ignore(err) {
		return wrote, false
	}
	a, err := v.OpenArray("a")
	must(t, err)
	u := newUser(t, v, 4)
	for p := uint64(0); p < a.Pages(); p += 7 {
		wrote[p] = true
		if _, err := u.write(a, []uint64{p}, 20); ignore(err) {
			return wrote, false
		}
	}
	u.close()
	must(t, a.Close())
	return wrote, !ignore(v.Close())
}

// noneBad reads every page: those that were not written are as they were, the
// others old, new or torn.
func noneBad(t *testing.T, v *Volume, wrote map[uint64]bool) string {
	t.Helper()
	a, err := v.OpenArray("a")
	must(t, err)
	u := newUser(t, v, 1)
	defer func() { u.close(); must(t, a.Close()) }()
	for p := range a.Pages() {
		got, err := u.read(a, p)
		var torn *TornPageError
		switch {
		case wrote[p] && errors.As(err, &torn):
		case err != nil:
			return err.Error()
		case bytes.Equal(got, content("a", p, 1+int(p%3))), wrote[p] && bytes.Equal(got, content("a", p, 20)):
		default:
			return fmt.Sprintf("page %d holds something else", p)
		}
	}
	return ""
}

// TestLostTableBlock: with both copies gone pages cannot be verified, which is no
// corruption, and writing a page repairs it for good.
func TestLostTableBlock(t *testing.T) {
	for _, crash := range []bool{false, true} {
		r, _, table := tableRig(t)
		for c := range int64(2) {
			r.disks[0].durable[table+c*tableBlock+50] ^= 4
		}
		v := reopen(t, r)
		a, err := v.OpenArray("a")
		must(t, err)
		u := newUser(t, v, 4)
		if rep, err := v.Scrub(t.Context(), nil); err != nil || rep != (ScrubReport{Pages: 60, Failed: 60, Repaired: 2}) {
			t.Fatalf("scrub: %+v, %v; want 60 pages not verified, two copies repaired", rep, err)
		}
		_, err = u.write(a, []uint64{3, 4}, 7)
		must(t, err)
		for range 2 {
			u.expect(a, 3, 7)
			u.expect(a, 4, 7)
			_, err = u.read(a, 5)
			var lost *ChecksumTableError
			if !errors.As(err, &lost) || lost.Block != 0 {
				t.Fatalf("page without a checksum: %v, want *ChecksumTableError", err)
			}
			u.close()
			if must(t, a.Close()); crash {
				must(t, v.Flush())
				r.powerOff()
			} else {
				must(t, v.Close())
			}
			v = reopen(t, r)
			if a, err = v.OpenArray("a"); err != nil {
				t.Fatal(err)
			}
			u = newUser(t, v, 4)
		}
		if rep, err := v.Scrub(t.Context(), nil); err != nil || rep != (ScrubReport{Pages: 60, Failed: 58}) {
			t.Fatalf("scrub after two pages were written: %+v, %v; want 58 of 60 not verified", rep, err)
		}
		u.close()
		must(t, a.Close())
		must(t, v.Close())
	}
}

// TestUnreadableTableBlockFailsItsPages: other pages of the batch go on.
func TestUnreadableTableBlockFailsItsPages(t *testing.T) {
	r := newRig(t, 1, 3<<20, 3<<20)
	v := create(t, r, options(true))
	a, err := v.CreateArray("a", 10)
	must(t, err)
	must(t, a.Close())
	must(t, v.Close())
	v = reopen(t, r)
	a, err = v.OpenArray("a")
	must(t, err)
	u := newUser(t, v, 4)
	boom, table := errors.New("media error"), v.tableOffset(0)
	broken := r.disks[a.info.First%2]
	r.w.fail = func(op *Op) error {
		if x, ok := op.Mem.(*testMapping); ok && x.m.d == broken && op.Kind == OpRead && op.Offset == table {
			return boom
		}
		return nil
	}
	reqs, err := u.write(a, []uint64{0, 1, 2}, 1)
	var pe *PageError
	if !errors.Is(err, boom) || !errors.As(reqs[0].Err, &pe) || pe.Page != 0 || !errors.Is(reqs[2].Err, boom) || reqs[1].Err != nil {
		t.Fatalf("pages 0 and 2 of a block that cannot be read: %v, %v; page 1: %v", reqs[0].Err, reqs[2].Err, reqs[1].Err)
	}
	u.expect(a, 1, 1)
	r.w.fail = nil
	u.close()
	must(t, a.Close())
	must(t, v.Close())
}
