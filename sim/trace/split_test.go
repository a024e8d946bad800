package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// splitAll reads every access, in batches.
func splitAll(t testing.TB, recs []Record, pageSize uint64, batch int) ([]Access, error) {
	t.Helper()
	s := NewSplitter(&memReader{recs: recs}, pageSize)
	var all []Access
	acc := make([]Access, batch)
	for {
		n, err := s.Next(acc)
		if err != nil {
			if n != 0 {
				t.Fatalf("Next returned %d, %v", n, err)
			}
			if m, again := s.Next(acc); m != 0 || again != err {
				t.Fatalf("after %v Next returned %d, %v", err, m, again)
			}
			return all, err
		}
		all = append(all, acc[:n]...)
	}
}

// show writes accesses as text: page, operation, ! for a whole page, ^ for the
// start of a request.
func show(acc []Access) string {
	var b strings.Builder
	for _, a := range acc {
		fmt.Fprintf(&b, " %d%s", a.Page, a.Op)
		if a.Array > 0 {
			fmt.Fprintf(&b, "@%d", a.Array)
		}
		if a.Whole {
			b.WriteByte('!')
		}
		if a.RequestStart {
			b.WriteByte('^')
		}
	}
	return strings.TrimSpace(b.String())
}

func TestSplit(t *testing.T) {
	const g = SameGroup
	for _, c := range []struct {
		name string
		page uint64
		recs []Record
		want string
	}{
		{"pages", 0, []Record{{Addr: 5, Flags: pa | rs}, {Addr: 6, Bytes: 99999, Op: Write, Flags: pa}, {Addr: 6, Op: Prefetch, Flags: pa}}, "5R^ 6W 6P"},
		{"whole pages said", 4096, []Record{{Addr: 5, Op: Write, Flags: pa | WholePage}, {Addr: 6, Flags: pa | WholePage},
			{Addr: 7, Op: Write, Flags: pa | WholePage | Update}}, "5W! 6R 7W"},
		{"range in a page", 100, []Record{{Addr: 199, Bytes: 1}, {Addr: 200, Bytes: 100}}, "1R 2R"},
		{"range over pages", 100, []Record{{Addr: 199, Bytes: 102, Flags: rs}}, "1R^ 2R 3R"},
		{"length unknown", 64, []Record{{Addr: 128}}, "2R"},
		{"writes of whole pages", 64, []Record{{Addr: 64, Bytes: 128, Op: Write}, {Addr: 63, Bytes: 66, Op: Write}, {Addr: 64, Bytes: 63, Op: Write}},
			"1W! 2W! 0W 1W! 2W 1W"},
		{"update is never whole", 64, []Record{{Addr: 64, Bytes: 64, Op: Write, Flags: Update}}, "1W"},
		{"read is never whole", 64, []Record{{Addr: 64, Bytes: 64}}, "1R"},
		{"the last bytes", 4096, []Record{{Addr: math.MaxUint64 - 1, Bytes: 1}}, "4503599627370495R"},
		{"warp", 64, []Record{{Addr: 0, Bytes: 4, Flags: rs}, {Addr: 4, Bytes: 4, Flags: g}, {Addr: 64, Bytes: 4, Flags: g}, {Addr: 8, Bytes: 4, Flags: g},
			{Addr: 8, Bytes: 4}}, "0R^ 1R 0R"},
		{"warp, a write wins", 64, []Record{{Addr: 0, Bytes: 64}, {Addr: 0, Bytes: 64, Op: Write, Flags: g}, {Addr: 70, Bytes: 4, Flags: g}}, "0W 1R"},
		{"warp, a write wins on the page before", 64, []Record{{Addr: 0, Bytes: 4}, {Addr: 4, Bytes: 4, Op: Write, Flags: g}}, "0W"},
		{"warp, arrays differ", 64, []Record{{Addr: 0, Bytes: 4}, {Addr: 0, Bytes: 4, Array: 1, Flags: g}}, "0R 0R@1"},
		{"warp over page bounds", 64, []Record{{Addr: 60, Bytes: 8}, {Addr: 124, Bytes: 8, Flags: g}}, "0R 1R 2R"},
		{"warps follow each other", 64, []Record{{Addr: 0, Bytes: 4}, {Addr: 0, Bytes: 4, Flags: g}, {Addr: 0, Bytes: 4}, {Addr: 0, Bytes: 4, Flags: g}}, "0R 0R"},
		{"pages ignore groups", 64, []Record{{Addr: 3, Flags: pa}, {Addr: 3, Flags: pa | g}, {Addr: 0, Bytes: 1, Flags: g}}, "3R 3R 0R"},
		{"whole write in a warp", 64, []Record{{Addr: 0, Bytes: 4, Op: Write}, {Addr: 0, Bytes: 64, Op: Write, Flags: g}}, "0W!"},
	} {
		for _, batch := range []int{1, 2, 100} {
			acc, err := splitAll(t, c.recs, c.page, batch)
			if got := show(acc); err != io.EOF || got != c.want {
				t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
			}
		}
	}
}

func TestSplitFaults(t *testing.T) {
	wide := make([]Record, maxGroup+1)
	for i := range wide {
		wide[i] = Record{Addr: uint64(i) * 64, Bytes: 1, Flags: SameGroup}
	}
	for _, c := range []struct {
		name   string
		page   uint64
		recs   []Record
		record int64
		what   string
	}{
		{"no page size", 0, []Record{{Flags: pa}, {Addr: 1, Bytes: 1}}, 2, "--page-size"},
		{"too long", 64, []Record{{Bytes: 1<<40 + 1}}, 1, "2^40"},
		{"overflow", 64, []Record{{Flags: pa}, {Flags: pa}, {Addr: math.MaxUint64, Bytes: 2}}, 3, "2^64"},
		{"group too wide", 64, wide, maxGroup + 1, "1024 pages"},
	} {
		_, err := splitAll(t, c.recs, c.page, 10)
		var te *Error
		if !errors.As(err, &te) || te.Record != c.record || !strings.Contains(te.Error(), c.what) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	boom := &Error{What: "boom"}
	s := NewSplitter(&memReader{recs: []Record{{Addr: 70, Bytes: 1}}, err: boom}, 64)
	acc := make([]Access, 5)
	if n, err := s.Next(acc); n != 1 || err != nil || acc[0].Page != 1 {
		t.Errorf("before the reader's error: %d, %v", n, err)
	}
	if n, err := s.Next(acc); n != 0 || err != boom {
		t.Errorf("the reader's error: %d, %v", n, err)
	}
}

// TestSplitModel compares with a splitter that is written for clarity, on random
// records and batches, across the splitter's own read-ahead.
func TestSplitModel(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) Record {
		// Small addresses and lengths make lanes of a group share pages.
		return Record{Addr: rapid.OneOf(rapid.Uint64Range(0, 5000), rapid.Uint64Range(0, 100)).Draw(t, "addr"),
			Bytes: rapid.OneOf(rapid.Uint64Range(0, 700), rapid.Uint64Range(0, 8)).Draw(t, "bytes"),
			Op:    Op(rapid.IntRange(0, 2).Draw(t, "op")), Flags: uint8(rapid.IntRange(0, int(knownFlags)).Draw(t, "flags"))}
	})
	rapid.Check(t, func(rt *rapid.T) {
		recs := rapid.SliceOfN(one, 1, 60).Draw(rt, "recs")
		for len(recs) < 2*splitBatch && rapid.Bool().Draw(rt, "longer") {
			recs = append(recs, recs...)
		}
		page := rapid.Uint64Range(1, 300).Draw(rt, "page")
		if rapid.IntRange(0, 3).Draw(rt, "wide") == 0 { // a group of about as many pages as one may have
			lanes := make([]Record, rapid.IntRange(maxGroup-5, maxGroup+5).Draw(rt, "lanes"))
			for i := range lanes {
				lanes[i] = Record{Addr: uint64(i) * page, Bytes: 1, Flags: SameGroup}
			}
			recs = slices.Insert(recs, rapid.IntRange(0, len(recs)).Draw(rt, "at"), lanes...)
		}
		got, err := splitAll(t, recs, page, rapid.IntRange(1, 3000).Draw(rt, "batch"))
		want, bad := splitModel(recs, page)
		var te *Error
		if bad == 0 && err != io.EOF || bad != 0 && (!errors.As(err, &te) || te.Record != bad) || !slices.Equal(got, want) {
			rt.Fatalf("page %d: %v, the record at fault is %d (0: none)\n got %s\nwant %s", page, err, bad, show(got), show(want))
		}
	})
}

// splitModel splits as the documentation says, byte by byte. bad is the number
// of the record that makes its group too wide, 0 without one; nothing of that
// group is in all.
func splitModel(recs []Record, page uint64) (all []Access, bad int64) {
	grouped := func(i int) bool { // whether record i belongs to the one before it
		return i > 0 && i < len(recs) && recs[i].Flags&(SameGroup|PageAddressed) == SameGroup && recs[i-1].Flags&PageAddressed == 0
	}
	group := 0 // index in all of the current group's first access
	for i, r := range recs {
		base := Access{Page: r.Addr, Op: r.Op, RequestStart: r.Flags&RequestStart != 0}
		if r.Flags&PageAddressed != 0 {
			base.Whole = r.Op == Write && r.Flags&WholePage != 0 && r.Flags&Update == 0
			all = append(all, base)
			continue
		}
		if !grouped(i) {
			group = len(all)
		}
		covered := map[uint64]uint64{}
		for b := r.Addr; b < r.Addr+max(r.Bytes, 1); b++ {
			covered[b/page]++
		}
		for p := r.Addr / page; covered[p] > 0; p++ {
			a := base
			a.Page = p
			a.Whole = r.Op == Write && r.Flags&Update == 0 && r.Bytes > 0 && covered[p] == page
			k := slices.IndexFunc(all[group:], func(x Access) bool { return x.Page == p })
			base.RequestStart = false
			if k < 0 {
				if len(all)-group == maxGroup && (grouped(i) || grouped(i+1)) {
					return all[:group], int64(i) + 1
				}
				all = append(all, a)
				continue
			}
			switch x := &all[group+k]; {
			case x.Op == Write && a.Op == Write:
				x.Whole = x.Whole || a.Whole
			case a.Op == Write:
				x.Op = Write
			case a.Op == Read && x.Op == Prefetch:
				x.Op = Read
			}
		}
	}
	return all, 0
}
