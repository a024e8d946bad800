package mrc

import "testing"

// What a reading promises is what a simulation of the larger memory counts, and
// more host memory never makes LRU worse.
func TestReadingOfMoreMemory(t *testing.T) {
	tr := loadTest(t, "lirs_multi3")
	now, more := Pair{GPU: 300, Host: 600}, []Pair{{Host: 1000}, {GPU: 200}, {GPU: 100, Host: 50}, {Host: 1 << 20}}
	r := Request{Cases: casesOf(t, "lru", "clock", "bound"), Pairs: append(PairsToRead(now, more), Pair{GPU: 5})}
	curves, err := Run(t.Context(), tr, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range curves {
		got, ok := c.Read(now, more)
		if !ok || len(got.Offers) != len(more) {
			t.Fatalf("%+v", got)
		}
		for i, o := range got.Offers {
			want, err := Run(t.Context(), tr, Request{Cases: r.Cases, Pairs: []Pair{now.plus(more[i])}})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range want {
				if w.Policy == c.Policy && (o.Then.SSDReads != w.Points[0].SSDReads || o.Saved != int64(got.Now.SSDReads)-int64(o.Then.SSDReads)) {
					t.Errorf("%s with %+v more: %+v, want %+v", c.Policy, more[i], o, w.Points[0])
				}
			}
			if o.Saved < 0 && c.Kind == Exact {
				t.Errorf("%+v more makes LRU worse: %+v", more[i], o)
			}
		}
		if only := c.Only([]Pair{{GPU: 5}, {GPU: 6}}); len(only.Points) != 1 || only.Points[0].GPU != 5 {
			t.Errorf("%+v", only.Points)
		}
	}
	if _, ok := curves[0].Read(Pair{GPU: 7}, nil); ok {
		t.Error("a size without a point was read")
	}
}
