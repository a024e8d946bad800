package volume

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const testPage = 1024

func options(checksums bool) Options {
	return Options{PageSize: testPage, Checksums: checksums, LogBytes: 4096}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, r *rig, o Options) *Volume {
	t.Helper()
	v, err := Create(r.members(-1), o)
	must(t, err)
	return v
}

func reopen(t testing.TB, r *rig) *Volume {
	t.Helper()
	v, err := Open(r.members(-1))
	must(t, err)
	return v
}

// user is a queue with memory for n pages.
type user struct {
	t   testing.TB
	v   *Volume
	q   *Queue
	mem *Memory
	n   int
}

func newUser(t testing.TB, v *Volume, n int) *user {
	t.Helper()
	q, err := v.OpenQueue(4)
	must(t, err)
	mem, err := v.Alloc(n * testPage)
	must(t, err)
	return &user{t, v, q, mem, n}
}

func (u *user) close() {
	u.t.Helper()
	must(u.t, u.q.Close())
	must(u.t, u.mem.Free())
}

// content is what version n of a page holds; version 0 is zeroes.
func content(array string, page uint64, version int) []byte {
	p := make([]byte, testPage)
	if version == 0 {
		return p
	}
	for i := 0; i < testPage; i += 16 { // every sector says whose it is
		binary.LittleEndian.PutUint64(p[i:], page<<32|uint64(version))
		copy(p[i+8:], array)
	}
	return p
}

func (u *user) slot(i int) []byte { return u.mem.Bytes()[i*testPage : (i+1)*testPage] }

// write writes pages at one version each.
func (u *user) write(a *Array, pages []uint64, version int) ([]Request, error) {
	reqs := make([]Request, len(pages))
	for i, p := range pages {
		copy(u.slot(i), content(a.info.Name, p, version))
		reqs[i] = Request{Array: a, Page: p, Write: true, Mem: u.mem, Offset: i * testPage}
	}
	return reqs, u.q.Run(context.Background(), reqs, time.Minute)
}

// read reads one page.
func (u *user) read(a *Array, page uint64) ([]byte, error) {
	reqs := []Request{{Array: a, Page: page, Mem: u.mem}}
	err := u.q.Run(context.Background(), reqs, time.Minute)
	return u.slot(0), err
}

func (u *user) expect(a *Array, page uint64, version int) {
	u.t.Helper()
	p, err := u.read(a, page)
	must(u.t, err)
	if !bytes.Equal(p, content(a.info.Name, page, version)) {
		u.t.Fatalf("page %d of %s does not hold version %d", page, a.info.Name, version)
	}
}

func TestVolumeKeepsPages(t *testing.T) {
	for _, members := range []int{1, 3} {
		for _, checksums := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d members checksums %v", members, checksums), func(t *testing.T) {
				sizes := []int{3 << 20, 3<<20 + 512, 4 << 20}[:members]
				r := newRig(t, 1, sizes...)
				v := create(t, r, options(checksums))
				a, err := v.CreateArray("a", 100)
				must(t, err)
				b, err := v.CreateArray("b", 1000)
				must(t, err)
				u := newUser(t, v, 10)
				u.expect(a, 99, 0)
				for first := uint64(0); first < 1000; first += 10 {
					var pages []uint64
					for p := range uint64(10) {
						pages = append(pages, first+p)
					}
					_, err := u.write(b, pages, 1)
					must(t, err)
				}
				u.close()
				must(t, a.Close())
				if err := v.Close(); !errors.Is(err, ErrBusy) {
					t.Fatalf("close with an open array: %v", err)
				}
				must(t, b.Close())
				must(t, v.Close())
				r.powerOff() // whatever Close did not make durable is lost

				slices.Reverse(r.disks) // the order of members does not matter
				ms := r.members(-1)
				for i, m := range ms {
					m.(*testMember).id.Serial = fmt.Sprintf("S%d", members-1-i)
				}
				v, err = Open(ms)
				must(t, err)
				if rec := v.Recovery(); rec.Unclean || rec.Pages != 0 {
					t.Errorf("a closed volume was recovered: %+v", rec)
				}
				b, err = v.OpenArray("b")
				must(t, err)
				a, err = v.OpenArray("a")
				must(t, err)
				u = newUser(t, v, 10)
				for p := range uint64(1000) {
					u.expect(b, p, 1)
				}
				u.expect(a, 0, 0)
				u.expect(a, 99, 0)
				u.close()
				must(t, a.Close())
				must(t, b.Close())
				must(t, v.Close())
			})
		}
	}
}

func TestArrays(t *testing.T) {
	r := newRig(t, 1, 3<<20)
	v := create(t, r, options(true))
	total := v.Pages()
	a, err := v.CreateArray("a", 10)
	must(t, err)
	must(t, a.Close())
	b, err := v.CreateArray("b", total-10)
	must(t, err)
	u := newUser(t, v, 2)
	_, err = u.write(b, []uint64{0, 1}, 3)
	must(t, err)
	var full *NoSpaceError
	if _, err := v.CreateArray("c", 1); !errors.As(err, &full) || full.Free != 0 {
		t.Errorf("array on a full volume: %v", err)
	}
	if _, err := v.CreateArray("a", 1); !errors.Is(err, ErrArrayExists) {
		t.Errorf("second array of one name: %v", err)
	}
	if err := v.DeleteArray("b"); !errors.Is(err, ErrBusy) {
		t.Errorf("delete of an open array: %v", err)
	}
	must(t, b.Close())
	if b.Close() == nil {
		t.Error("a handle was closed twice")
	}
	if _, err := u.read(b, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read of a closed array: %v", err)
	}
	must(t, v.DeleteArray("b"))
	if err := v.DeleteArray("b"); !errors.Is(err, ErrNoArray) {
		t.Errorf("delete of nothing: %v", err)
	}
	for _, name := range []string{"", string(make([]byte, 65)), "a\x00b"} {
		if _, err := v.CreateArray(name, 1); err == nil {
			t.Errorf("array named %q was made", name)
		}
	}
	// The space of a deleted array reads as zeroes in the next one.
	c, err := v.CreateArray("c", 5)
	must(t, err)
	if c.Info().First != 10 || c.Info().ID != 3 {
		t.Errorf("array c: %+v, want the gap behind a and a new id", c.Info())
	}
	u.expect(c, 0, 0)
	u.expect(c, 1, 0)
	if _, err := c.Layout(); !errors.Is(err, ErrChecksummed) {
		t.Errorf("layout with checksums: %v", err)
	}
	u.close()
	must(t, c.Close())
	must(t, v.Close())
}

func TestLayoutFindsPages(t *testing.T) {
	r := newRig(t, 1, 3<<20, 3<<20, 3<<20)
	v := create(t, r, options(false))
	pad, err := v.CreateArray("pad", 7)
	must(t, err)
	a, err := v.CreateArray("a", 50)
	must(t, err)
	u := newUser(t, v, 1)
	l, err := a.Layout()
	must(t, err)
	for p := range uint64(50) {
		_, err := u.write(a, []uint64{p}, 1)
		must(t, err)
		g := l.First + p
		got := make([]byte, testPage)
		r.disks[g%l.Members].read(int64(l.DataOffset+g/l.Members*l.PageSize), got)
		if !bytes.Equal(got, content("a", p, 1)) {
			t.Fatalf("page %d is not where the layout says", p)
		}
	}
	u.close()
	must(t, pad.Close())
	must(t, a.Close())
	must(t, v.Close())
}

func TestBadRequestsGetTheirResult(t *testing.T) {
	r := newRig(t, 1, 3<<20)
	v := create(t, r, options(true))
	a, err := v.CreateArray("a", 10)
	must(t, err)
	u := newUser(t, v, 2)
	reqs := []Request{
		{Array: a, Page: 10, Mem: u.mem},
		{Array: a, Page: 3, Mem: u.mem, Write: true},
		{Array: nil, Page: 3, Mem: u.mem, Write: true},
		{Array: a, Page: 3, Mem: u.mem, Offset: 2*testPage - 512, Write: true},
		{Array: a, Page: 3},
		{Array: a, Page: 4, Mem: u.mem, Offset: testPage},
	}
	if err := u.q.Run(context.Background(), reqs, time.Minute); err == nil {
		t.Error("a batch with bad requests succeeded")
	}
	for i, ok := range []bool{false, true, false, false, false, true} {
		if (reqs[i].Err == nil) != ok {
			t.Errorf("request %d: %v, want success %v", i, reqs[i].Err, ok)
		}
	}
	if _, err := u.q.Start(reqs[:1], 0); err == nil {
		t.Error("a batch without a timeout was started")
	}
	late := []Request{{Array: a, Page: 0, Mem: u.mem}}
	b, err := u.q.Start(late, time.Nanosecond)
	must(t, err)
	if err := u.q.Wait(context.Background(), b); !errors.Is(err, ErrDeadline) {
		t.Errorf("batch after its deadline: %v", err)
	}
	u.close()
	must(t, a.Close())
	must(t, v.Close())
}

func TestCorruptionIsTyped(t *testing.T) {
	r := newRig(t, 1, 3<<20, 3<<20)
	v := create(t, r, options(true))
	a, err := v.CreateArray("a", 10)
	must(t, err)
	u := newUser(t, v, 4)
	_, err = u.write(a, []uint64{0, 1, 2, 3}, 1)
	must(t, err)
	must(t, v.Flush())
	member, off := v.locate(a.info.First + 2)
	r.disks[member].durable[off+100] ^= 4
	for range 2 {
		_, err = u.read(a, 2)
		var corrupt *CorruptPageError
		if !errors.As(err, &corrupt) || corrupt.Page != 2 || corrupt.Array != "a" || corrupt.Offset != off {
			t.Fatalf("flipped bit: %v, want *CorruptPageError of page 2", err)
		}
		// The same after the volume was closed and opened.
		u.close()
		must(t, a.Close())
		must(t, v.Close())
		v = reopen(t, r)
		a, err = v.OpenArray("a")
		must(t, err)
		u = newUser(t, v, 4)
	}
	u.expect(a, 1, 1)
	_, err = u.write(a, []uint64{2}, 2)
	must(t, err)
	u.expect(a, 2, 2)
	u.close()
	must(t, a.Close())
	must(t, v.Close())
}

// TestFailedWriteIsTornNotCorrupt: after an error the page may hold anything.
func TestFailedWriteIsTornNotCorrupt(t *testing.T) {
	for seed := range uint64(40) {
		r := newRig(t, seed, 3<<20)
		v := create(t, r, options(true))
		a, err := v.CreateArray("a", 10)
		must(t, err)
		u := newUser(t, v, 1)
		_, err = u.write(a, []uint64{5}, 1)
		must(t, err)
		must(t, v.Flush())
		boom := errors.New("media error")
		data := int64(v.label.DataOffset)
		r.w.fail = func(op *Op) error {
			if op.Kind == OpWrite && op.Offset >= data {
				return boom
			}
			return nil
		}
		_, err = u.write(a, []uint64{5}, 2)
		var pe *PageError
		if !errors.Is(err, boom) || !errors.As(err, &pe) || pe.Page != 5 || !pe.Write {
			t.Fatalf("failed write: %v", err)
		}
		r.w.fail = nil
		for _, closed := range []bool{false, true} {
			p, err := u.read(a, 5)
			var torn *TornPageError
			switch {
			case errors.As(err, &torn):
			case err != nil:
				t.Fatalf("seed %d, after reopening %v: %v", seed, closed, err)
			case !bytes.Equal(p, content("a", 5, 1)) && !bytes.Equal(p, content("a", 5, 2)):
				t.Fatalf("seed %d: neither the old nor the new content, and no error", seed)
			}
			if !closed {
				u.close()
				must(t, a.Close())
				must(t, v.Close())
				v = reopen(t, r)
				a, err = v.OpenArray("a")
				must(t, err)
				u = newUser(t, v, 1)
			}
		}
		_, err = u.write(a, []uint64{5}, 3)
		must(t, err)
		u.expect(a, 5, 3)
		u.close()
		must(t, a.Close())
		must(t, v.Close())
	}
}

func TestOpenRefuses(t *testing.T) {
	r := newRig(t, 1, 3<<20, 3<<20)
	other := newRig(t, 2, 3<<20, 3<<20)
	must(t, create(t, r, options(true)).Close())
	must(t, create(t, other, options(true)).Close())
	var notEmpty *NotEmptyError
	if _, err := Create(r.members(-1), options(true)); !errors.As(err, &notEmpty) {
		t.Errorf("create over a volume: %v", err)
	}
	for name, change := range map[string]func(ms []Member) []Member{
		"missing member":    func(ms []Member) []Member { return ms[:1] },
		"member twice":      func(ms []Member) []Member { return []Member{ms[0], ms[0]} },
		"foreign member":    func(ms []Member) []Member { return []Member{ms[0], other.members(-1)[1]} },
		"clone":             func(ms []Member) []Member { ms[1].(*testMember).id.Serial = "X"; return ms },
		"empty disk":        func(ms []Member) []Member { ms[0].(*testMember).d = newDisk(3 << 20); return ms },
		"no members":        func(ms []Member) []Member { return nil },
		"truncated":         func(ms []Member) []Member { d := ms[1].(*testMember).d; d.durable = d.durable[:2<<20]; return ms },
		"both labels hurt":  damage(100, 4096+100),
		"both directories":  damage(dirOffset+300, dirOffset+dirSlot+300),
		"directory swapped": damage(dirOffset, dirOffset+dirSlot),
	} {
		c := r.clone(3)
		if v, err := Open(change(c.members(-1))); err == nil {
			t.Errorf("%s: opened", name)
			must(t, v.Close())
		}
	}
	for name, off := range map[string]int{"first label": 100, "second label": 5000, "old directory": -1} {
		c := r.clone(4)
		if off < 0 {
			v := reopen(t, c)
			off = int(slotOffset(v.dir.generation))
			must(t, v.Close()) // writes the other one
		}
		c.disks[0].durable[off+30] ^= 1
		v, err := Open(c.members(-1))
		if err != nil {
			t.Errorf("%s damaged: %v, want the other copy to do", name, err)
			continue
		}
		must(t, v.Close())
	}
	forced := options(false)
	forced.Force = true
	must(t, create(t, r, forced).Close())
}

// damage flips a bit at some places of the first disk.
func damage(offsets ...int) func([]Member) []Member {
	return func(ms []Member) []Member {
		for _, off := range offsets {
			ms[0].(*testMember).d.durable[off] ^= 1
		}
		return ms
	}
}

func TestCreateRefusesOptions(t *testing.T) {
	r := newRig(t, 1, 3<<20)
	for _, o := range []Options{{PageSize: 1000}, {PageSize: 256}, {PageSize: 32 << 20}, {PageSize: 4096, LogBytes: -1}, {PageSize: 16 << 20}} {
		if _, err := Create(r.members(-1), o); err == nil {
			t.Errorf("created with %+v", o)
		}
	}
	if _, err := Create(nil, options(false)); err == nil {
		t.Error("created without members")
	}
}

// TestPlanFits: whatever the sizes, areas do not overlap and the next slot would not fit.
func TestPlanFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := label{Version: FormatVersion, Members: 1, LogUnit: 512,
			PageSize: 512 << rapid.IntRange(0, 15).Draw(t, "shift"), Checksums: rapid.Uint32Range(0, 1).Draw(t, "checksums")}
		copy(l.Magic[:], labelMagic)
		if l.Checksums == 1 {
			l.LogHalf = 4096 * rapid.Uint64Range(1, 256).Draw(t, "log")
		}
		size := rapid.OneOf(rapid.Int64Range(0, 1<<44), rapid.Int64Range(0, 32<<20)).Draw(t, "size")
		if err := l.plan(size); err != nil {
			if size > 64<<20 {
				t.Fatalf("%d bytes are too few? %v", size, err)
			}
			var least int64
			if _, scan := fmt.Sscanf(err.Error()[strings.Index(err.Error(), "take"):], "take %d:", &least); scan != nil || least <= size || l.plan(least) != nil || l.plan(least-1) == nil {
				t.Fatalf("%d bytes are not the least that do: %v", least, err)
			}
			return
		}
		if why := l.check(size, 512); why != "" {
			t.Fatalf("the plan does not pass its own check: %s (%+v)", why, l)
		}
		if end := int64(l.DataOffset + (l.Slots+1)*uint64(l.PageSize)); end+2<<20+2*tableBlock+int64(l.PageSize) < size {
			t.Fatalf("%d bytes are left unused of %d", size-end, size)
		}
	})
}
