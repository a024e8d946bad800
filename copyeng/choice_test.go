package copyeng_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tritier/tritier/copyeng"
)

// What no engine would copy has no path, and the choice says why; the largest
// batch has one.
func TestNoChoice(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	h := copyeng.OpenHost(copyeng.HostOptions{})
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	exchange := func(_ copyeng.Direction, page, n int) copyeng.Choice { return g.ChooseExchange(page, n) }
	for name, choose := range map[string]func(copyeng.Direction, int, int) copyeng.Choice{"GPU": g.Choose, "host": h.Choose, "exchange": exchange} {
		for _, c := range []struct {
			dir     copyeng.Direction
			page, n int
			want    string // "" for a path
		}{
			{copyeng.ToHost, 4096, copyeng.MaxPages, ""},
			{copyeng.ToHost, 4096, copyeng.MaxPages + 1, "split it"},
			{copyeng.ToDevice, 4096, math.MaxInt, "split it"},
			{copyeng.ToDevice, 4096, 0, "nothing to copy"},
			{copyeng.ToDevice, 4096, math.MinInt, "nothing to copy"},
			{copyeng.ToDevice, 0, 1, "page size 0 is not a power of two"},
			{copyeng.ToDevice, math.MinInt, 1, "is not a power of two"},
			{2, 4096, 1, "no such direction"},
			{255, 4096, 1, "no such direction"},
		} {
			if name == "exchange" && c.dir > copyeng.ToHost {
				continue
			}
			got := choose(c.dir, c.page, c.n)
			if c.want == "" {
				if got.Path == copyeng.PathNone || got.Time < 0 {
					t.Errorf("%s: %+v", name, got)
				}
				continue
			}
			if got.Path != copyeng.PathNone || got.Time != 0 || got.Pages != c.n || !strings.Contains(got.Source, c.want) || !strings.HasSuffix(got.Why(), got.Source) || got.Alternatives() != nil {
				t.Errorf("%s, %d pages of %d bytes in direction %d: %+v, want no path since %q", name, c.n, c.page, c.dir, got, c.want)
			}
		}
	}
}
