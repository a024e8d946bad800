package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// diary notes what is asked of engine and store, in order.
type diary struct {
	*ram
	*disk
	said []string
	page time.Duration // that a copy of a page takes; a read takes two
}

func (d *diary) Name() string { return "diary" }
func (d *diary) Close() error { return nil }

func (d *diary) note(format string, args ...any) {
	d.said = append(d.said, fmt.Sprintf(format, args...))
}

func (d *diary) Out(list []Copy) error {
	d.note("out")
	time.Sleep(time.Duration(len(list)) * d.page)
	return d.ram.Out(list)
}

func (d *diary) In(list []Copy) error {
	d.note("in")
	time.Sleep(time.Duration(len(list)) * d.page)
	return d.ram.In(list)
}

func (d *diary) Load(dst Buffer, list []Piece) error {
	d.note("load")
	time.Sleep(time.Duration(len(list)) * d.page)
	return d.ram.Load(dst, list)
}

func (d *diary) Start(list []Request) (Pending, error) {
	d.note("start %d", len(list))
	d.disk.delay = time.Duration(len(list)) * 2 * d.page
	return d.disk.Start(list)
}

func (d *diary) Flush(ctx context.Context) error   { return d.disk.Flush(ctx) }
func (d *diary) Recover(ctx context.Context) error { return d.disk.Recover(ctx) }

func scanned(tb testing.TB, t1, t2, spares, pages int, each time.Duration) (*Memory, *diary, *Batch) {
	tb.Helper()
	s, err := placement.Parse("tier-order")
	if err != nil {
		tb.Fatal(err)
	}
	r := newRAM(testPage, t1, t2+spares)
	d := &diary{ram: r, disk: newDisk(r, 1), page: each}
	m, err := New(d, d, Options{PageSize: testPage, T1: t1, T2: t2, Spares: spares, Policy: s})
	if err != nil {
		tb.Fatal(err)
	}
	base, err := m.NewArray(0, "a", uint64(pages))
	if err != nil {
		tb.Fatal(err)
	}
	b := &Batch{Op: tier.Read, Buffer: Buffer{Bytes: make([]byte, testPage*pages)}}
	for i := range pages {
		b.Spans = append(b.Spans, Span{Page: base + placement.Page(i), Length: testPage, At: int64(i * testPage)})
	}
	return m, d, b
}

// TestWavesOverlap: the reads of a wave are begun before what the last one has read is
// copied, and nothing else is.
func TestWavesOverlap(t *testing.T) {
	for _, size := range [][3]int{{40, 0, 16}, {12, 0, 16}, {12, 30, 32}} {
		m, d, b := scanned(t, size[0], size[1], size[2], 40, 0)
		if err := m.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		said := strings.Join(d.said, ", ")
		t.Logf("%v: %s", size, said)
		var kinds []string
		for _, s := range d.said {
			kinds = append(kinds, strings.Fields(s)[0])
		}
		if len(kinds) < 8 || kinds[0] != "start" || kinds[1] != "start" && kinds[1] != "out" {
			t.Fatalf("%v: %s", size, said)
		}
		starts, ins := 0, 0
		for i, k := range kinds {
			switch k {
			case "start":
				starts++
			case "in":
				if ins++; starts != ins+1 && slices.Contains(kinds[i:], "start") {
					t.Errorf("%v: the reads of wave %d are not begun when those of wave %d are copied: %s", size, ins+1, ins, said)
				}
			case "out":
				if starts != ins+1 {
					t.Errorf("%v: victims leave before the wave before them is done: %s", size, said)
				}
			}
		}
	}
}

// BenchmarkOverlap: reads of a page take twice as long as a copy.
func BenchmarkOverlap(b *testing.B) {
	m, _, batch := scanned(b, 256, 0, 256, 4096, 20*time.Microsecond)
	for b.Loop() {
		if err := m.Run(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/4096, "us/page")
}
