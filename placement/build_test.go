package placement

import (
	"errors"
	"reflect"
	"testing"
)

// mustParse parses a policy of the test's own.
func mustParse(t testing.TB, s string) Spec {
	t.Helper()
	spec, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestBuild(t *testing.T) {
	future, err := NewFuture(nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range evictors {
		p, err := mustParse(t, "tier-order{t2copy=keep,t1="+d.name+",t2="+d.name+"}").Build(Env{T1Frames: 100, T2Frames: 200, Pages: 1000, Seed: 1, Future: future})
		if err != nil {
			t.Errorf("%s: %v", d.name, err)
			continue
		}
		if p.T1.Name() != d.name || p.T1.Cap() != 100 || p.T2.Name() != d.name || p.T2.Cap() != 200 {
			t.Errorf("%s: built %s of %d and %s of %d", d.name, p.T1.Name(), p.T1.Cap(), p.T2.Name(), p.T2.Cap())
		}
		if !p.KeepT2Copy || p.Placer.Name() != "tier-order" {
			t.Errorf("%s: keep %t, placer %s", d.name, p.KeepT2Copy, p.Placer.Name())
		}
	}
	for _, d := range placers {
		p, err := mustParse(t, d.name+"{}").Build(Env{T1Frames: 10, T2Frames: 20, Pages: 100})
		if err != nil || p.Placer.Name() != d.name || p.T1.Name() != d.t1 || p.T2.Name() != d.t2 || p.KeepT2Copy {
			t.Errorf("%s: %+v, %v", d.name, p, err)
		}
	}
}

// TestBuildPassesParameters: what the registry builds is what the constructor
// makes from the same values.
func TestBuildPassesParameters(t *testing.T) {
	const frames, pages, seed = 200, 1000, 9
	made := func(e Evictor, err error) Evictor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for in, want := range map[string]Evictor{
		"2q(kin=0.1,kout=0.7)": made(New2Q(frames, pages, TwoQParams{Kin: 0.1, Kout: 0.7})),
		"s3-fifo(small=0.2,ghost=0.3,cap=9,promote=4)": made(NewS3FIFO(frames, pages,
			S3FIFOParams{Small: 0.2, Ghost: 0.3, Cap: 9, Promote: 4})),
		"lirs(hir=0.2,ghost=3)": made(NewLIRS(frames, pages, LIRSParams{HIR: 0.2, Ghost: 3})),
		"w-tinylfu(window=0.2,protected=0.4,reset=7)": made(NewWTinyLFU(frames, pages,
			WTinyLFUParams{Window: 0.2, Protected: 0.4, Reset: 7, Seed: seed ^ seedT1})),
		"random": made(NewRandom(frames, pages, seed^seedT1)),
	} {
		p, err := mustParse(t, in).Build(Env{T1Frames: frames, Pages: pages, Seed: seed})
		if err != nil || !reflect.DeepEqual(p.T1, want) {
			t.Errorf("%s: %v, or not what the constructor makes", in, err)
		}
	}
	reuse := GMTReuseParams{First: 0.125, FitEvery: 100, K: 3, R2: 0.5, Starve: 0.25, VTDDirect: 77, Window: 9}
	want, err := NewGMTReuse(frames, 50, pages, seed, reuse)
	if err != nil {
		t.Fatal(err)
	}
	in := "gmt-reuse{window=9,vtd-direct=77,starve=0.25,r2=0.5,k=3,fit-every=100,first=0.125}"
	p, err := mustParse(t, in).Build(Env{T1Frames: frames, T2Frames: 50, Pages: pages, Seed: seed})
	if err != nil || !reflect.DeepEqual(p.Placer, Placer(want)) {
		t.Errorf("%s: %v, or not what the constructor makes", in, err)
	}
}

func TestBuildWithoutHostTier(t *testing.T) {
	// belady in T2 would need the trace, but there is no T2.
	p, err := mustParse(t, "bypass{t2=belady}").Build(Env{T1Frames: 1, Pages: 10})
	if err != nil || p.T2 != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestBuildTooSmall(t *testing.T) {
	for _, d := range evictors {
		spec := mustParse(t, "bypass{t1="+d.name+",t2="+d.name+"}")
		for _, tc := range []struct {
			env  Env
			want SizeError
		}{
			{Env{T1Frames: d.min - 1, T2Frames: 100}, SizeError{d.name, "T1", d.min - 1, d.min}},
			{Env{T1Frames: -5, T2Frames: 100}, SizeError{d.name, "T1", -5, d.min}},
		} {
			_, err := spec.Build(tc.env)
			var e *SizeError
			if !errors.As(err, &e) || *e != tc.want {
				t.Errorf("%+v: %v, want %+v", tc.env, err, tc.want)
			}
		}
	}
	_, err := mustParse(t, "lru").Build(Env{T1Frames: 1, T2Frames: -1})
	if want := "lru in T2: -1 frames are too few: it needs at least 1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestSmallestSizeWorks builds every evictor at its smallest size and at the
// extremes of its parameters, and runs more pages than frames through it.
func TestSmallestSizeWorks(t *testing.T) {
	for _, d := range evictors {
		if d.future {
			continue
		}
		ev, err := defaultEvictor(&d).build("T1", d.min, 7, Env{Pages: 50})
		if err != nil {
			t.Errorf("%s: %v", d.name, err)
			continue
		}
		for p := range Page(50) {
			if ev.Len() == ev.Cap() && ev.Victim(p, nil) == None {
				t.Errorf("%s: no victim of %d", d.name, ev.Len())
				break
			}
			ev.Insert(p)
		}
	}
}

func TestBuildNeedsFuture(t *testing.T) {
	for in, tier := range map[string]string{"belady": "T1", "bypass{t2=belady}": "T2"} {
		spec := mustParse(t, in)
		if !spec.NeedsFuture() {
			t.Errorf("%s does not say that it needs the future", in)
		}
		_, err := spec.Build(Env{T1Frames: 5, T2Frames: 5})
		var e *FutureError
		if !errors.As(err, &e) || *e != (FutureError{"belady", tier}) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if mustParse(t, "lru").NeedsFuture() || (Spec{}).NeedsFuture() {
		t.Error("lru or nothing needs the future")
	}
}

func TestBuildRefusesNonsense(t *testing.T) {
	if _, err := (Spec{}).Build(Env{T1Frames: 1}); err == nil {
		t.Error("an empty policy was built")
	}
	for _, pages := range []int{-1, MaxPages + 1} {
		if _, err := mustParse(t, "lru").Build(Env{T1Frames: 1, Pages: pages}); err == nil {
			t.Errorf("%d pages were accepted", pages)
		}
	}
}

// TestSeedsDiffer: the two tiers' random evictors must not draw alike.
func TestSeedsDiffer(t *testing.T) {
	p, err := mustParse(t, "random").Build(Env{T1Frames: 64, T2Frames: 64, Pages: 200, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range Page(64) {
		p.T1.Insert(i)
		p.T2.Insert(i)
	}
	same := 0
	for i := Page(64); i < 96; i++ {
		if p.T1.Victim(i, nil) == p.T2.Victim(i, nil) {
			same++
		}
	}
	if same > 8 {
		t.Errorf("%d of 32 victims are the same in both tiers", same)
	}
}
