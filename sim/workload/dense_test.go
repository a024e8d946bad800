package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tritier/tritier/sim/trace"
)

// accesses runs a workload and splits it into pages, one letter an array:
// R read, W write, O write of a whole page; * starts a request.
func accesses(t testing.TB, text string, pageSize uint64) []string {
	t.Helper()
	var all []string
	s := trace.NewSplitter(open(t, text), pageSize)
	batch := make([]trace.Access, 64)
	for {
		n, err := s.Next(batch)
		if n == 0 {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			return all
		}
		for _, a := range batch[:n] {
			op := a.Op.String()
			if a.Whole {
				op = "O"
			}
			if a.RequestStart {
				op = "*" + op
			}
			all = append(all, fmt.Sprintf("%s%c%d", op, 'a'+rune(a.Array), a.Page))
		}
	}
}

// TestKernelsByHand compares with histories worked out on paper.
func TestKernelsByHand(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"two inputs of 20 elements on pages of 8: the last page is half full, yet its write is whole",
			"multi-vector-add{vectors=2,elements=20,page-size=32B}",
			"*Ra0 Rb0 Oc0 Ra1 Rb1 Oc1 Ra2 Rb2 Oc2"},
		{"no held pages: half a page at a time",
			"multi-vector-add{vectors=1,elements=8,page-size=32B,tile=16B,passes=2}",
			"*Ra0 Wb0 Ra0 Wb0 *Ra0 Wb0 Ra0 Wb0"},
		{"a 3x16 wall, two pages a row: row 0 is the first source, then the results alternate",
			"pathfinder{rows=3,cols=16,page-size=32B}",
			// The halo of a tile reaches one element into the other page.
			"*Ra0 Ra1 Ra2 Ob0 Ra0 Ra1 Ra3 Ob1 *Rb0 Rb1 Ra4 Oc0 Rb0 Rb1 Ra5 Oc1"},
		{"two rows in one launch: the halo is two wide in the source, one in the first row, none in the last",
			"pathfinder{rows=3,cols=16,height=2,page-size=32B}",
			"*Ra0 Ra1 Ra2 Ra3 Ra4 Ob0 Ra0 Ra1 Ra2 Ra3 Ra5 Ob1"},
		{"4x4 on two pages a grid: the row below the first tile is on the other page, and the row above the second",
			"hotspot{rows=4,cols=4,iterations=2,page-size=32B}",
			"*Ra0 Ra1 Rc0 Ob0 Ra0 Ra1 Rc1 Ob1 *Rb0 Rb1 Rc0 Oa0 Rb0 Rb1 Rc1 Oa1"},
		{"rows of two pages: left and right neighbours are on the row's other page, above and below on the same half",
			"hotspot{rows=3,cols=16,iterations=1,page-size=32B}",
			"*Ra0 Ra1 Ra2 Rc0 Ob0 Ra0 Ra1 Ra3 Rc1 Ob1 " +
				"Ra0 Ra2 Ra3 Ra4 Rc2 Ob2 Ra1 Ra2 Ra3 Ra5 Rc3 Ob3 " +
				"Ra2 Ra4 Ra5 Rc4 Ob4 Ra3 Ra4 Ra5 Rc5 Ob5"},
		{"two kernels; the second reads the coefficients below and to the east and updates the image",
			"srad{rows=4,cols=4,iterations=1,page-size=32B}",
			"*Ra0 Ra1 Ob0 Oc0 Od0 Oe0 Of0 Ra0 Ra1 Ob1 Oc1 Od1 Oe1 Of1 " +
				"*Rf0 Rf1 Rb0 Rc0 Rd0 Re0 Wa0 Rf1 Rb1 Rc1 Rd1 Re1 Wa1"},
		{"3+1 by 3+1 weights on two pages, 3+1 by 1+1 on one; every vector fits a page",
			"backprop{inputs=3,hidden=3,page-size=32B}",
			"*Ra0 Rd0 Wb0 Ra0 Rd1 Wb0 *Rb0 Re0 Wc0 *Rc0 Rb0 Wg0 We0 *Rb0 Ra0 Wf0 Wd0 Rb0 Ra0 Wf1 Wd1"},
	} {
		got := strings.Join(accesses(t, c.spec, mustParse(t, c.spec).PageSize()), " ")
		if got != c.want {
			t.Errorf("%s\n%s\ngot  %s\nwant %s", c.name, c.spec, got, c.want)
		}
	}
}

func TestDenseSizes(t *testing.T) {
	for in, want := range map[string]string{
		"multi-vector-add{bytes=16GiB}": "elements=1073741824,",
		"pathfinder{bytes=408MiB}":      "cols=1048576,",
		"hotspot{bytes=48MiB}":          "rows=2048,cols=2048,",
		"srad{bytes=96MiB,tile=128B}":   "rows=2048,cols=2048,iterations=10,elem=4B,page-size=64KiB,tile=128B",
		"backprop{bytes=140B}":          "inputs=1,",
		"hotspot{page-size=4KiB}":       "page-size=4KiB,tile=4KiB",
	} {
		if s := mustParse(t, in).String(); !strings.Contains(s, want) {
			t.Errorf("%s = %s, want %s in it", in, s, want)
		}
	}
	for in, want := range map[string]string{
		"hotspot{bytes=1GiB,rows=5}":   "bytes and rows say the same thing twice",
		"hotspot{bytes=11B}":           "rows=0 is out of range",
		"hotspot{tile=6B}":             "not a multiple of elem",
		"hotspot{tile=2B}":             "not a multiple of elem",
		"srad{tile=1GiB}":              "more than 256 pages",
		"pathfinder{rows=1T,cols=1T}":  "more than",
		"multi-vector-add{elements=0}": "out of range",
		"multi-vector-add{bytes=3B}":   "elements=0 is out of range",
		"backprop{hidden=0}":           "out of range",
	} {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s): %v, want %q", in, err, want)
		}
	}
}

// TestDenseFootprint: each kernel touches exactly its arrays, whatever the
// shape of the grid against page and tile.
func TestDenseFootprint(t *testing.T) {
	for _, c := range []struct {
		spec   string
		arrays []uint64 // elements
	}{
		{"hotspot{rows=37,cols=53,iterations=2,%s}", []uint64{37 * 53, 37 * 53, 37 * 53}},
		{"srad{rows=5,cols=301,iterations=1,%s}", []uint64{1505, 1505, 1505, 1505, 1505, 1505}},
		{"pathfinder{rows=9,cols=211,height=3,%s}", []uint64{9 * 211, 211, 211}},
		{"multi-vector-add{vectors=2,elements=1003,%s}", []uint64{1003, 1003, 1003}},
		{"backprop{inputs=200,hidden=6,outputs=2,%s}", []uint64{201, 7, 3, 1407, 21, 1407, 21}},
	} {
		for _, sizes := range []string{"page-size=64B", "page-size=64B,tile=16B", "page-size=256B,tile=1KiB", "page-size=4KiB"} {
			spec := fmt.Sprintf(c.spec, sizes)
			size := mustParse(t, spec).PageSize()
			pages := map[string]bool{}
			for _, a := range accesses(t, spec, size) {
				pages[strings.TrimLeft(a, "*RWO")] = true
			}
			want := 0
			for id, n := range c.arrays {
				for p := range (4*n + size - 1) / size {
					want++
					if name := fmt.Sprintf("%c%d", 'a'+rune(id), p); !pages[name] {
						t.Errorf("%s: page %s is never accessed", spec, name)
					}
				}
			}
			if len(pages) != want {
				t.Errorf("%s: %d pages, want %d", spec, len(pages), want)
			}
		}
	}
}

// TestStencilAgainstElements checks the spans of around against the plain
// definition, element by element.
func TestStencilAgainstElements(t *testing.T) {
	for _, size := range [][2]uint64{{1, 1}, {1, 7}, {7, 1}, {3, 4}, {5, 3}} {
		g := grid{vector{0, size[0] * size[1]}, size[1]}
		for low := range g.length {
			for high := low + 1; high <= g.length; high++ {
				want, got := map[uint64]bool{}, map[uint64]bool{}
				for i := low; i < high; i++ {
					want[i] = true
					if i >= g.cols {
						want[i-g.cols] = true
					}
					if i+g.cols < g.length {
						want[i+g.cols] = true
					}
					if i%g.cols > 0 {
						want[i-1] = true
					}
					if i%g.cols < g.cols-1 {
						want[i+1] = true
					}
				}
				north, centre, south := g.around(low, high)
				for _, s := range []span{north, centre, south} {
					for i := s.low; i < s.high; i++ {
						got[i] = true
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%dx%d [%d,%d): %v, want %v", size[0], size[1], low, high, got, want)
				}
			}
		}
	}
}
