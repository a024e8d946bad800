package volume

import (
	"context"
	"errors"
	"testing"
)

func TestScrubFindsWhatIsWrong(t *testing.T) {
	r := newRig(t, 1, 3<<20, 3<<20)
	v := create(t, r, options(true))
	var open []*Array
	for _, name := range []string{"a", "b"} {
		a, err := v.CreateArray(name, 100)
		must(t, err)
		open = append(open, a)
	}
	u := newUser(t, v, 8)
	for p := range uint64(100) {
		_, err := u.write(open[1], []uint64{p}, 1)
		must(t, err)
	}
	must(t, v.Flush())
	if rep, err := v.Scrub(t.Context(), nil); err != nil || !rep.OK() || rep.Pages != 200 {
		t.Fatalf("scrub of a good volume: %+v, %v", rep, err)
	}
	for _, p := range []uint64{0, 57, 99} {
		m, off := v.locate(open[1].info.First + p)
		r.disks[m].durable[off+511] ^= 1
	}
	torn := open[0].info.First + 5
	v.mu.Lock()
	must(t, v.setSum(torn, tornMark))
	v.mu.Unlock()
	bad := map[string][]uint64{}
	rep, err := v.Scrub(t.Context(), func(array string, page uint64, err error) { bad[array] = append(bad[array], page) })
	if err != nil || rep != (ScrubReport{Pages: 200, Corrupt: 3, Torn: 1}) {
		t.Fatalf("scrub: %+v, %v; want 3 corrupt and 1 torn of 200", rep, err)
	}
	if len(bad["a"]) != 1 || bad["a"][0] != 5 || len(bad["b"]) != 3 || bad["b"][1] != 57 {
		t.Errorf("bad pages %v", bad)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Scrub(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("scrub under a cancelled context: %v", err)
	}
	u.close()
	for _, a := range open {
		must(t, a.Close())
	}
	must(t, v.Close())
}
