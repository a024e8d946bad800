package tune

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

// Tasks and outcomes go through JSON unchanged, and what arrives has the same
// key and gives the same outcome: they can be handed to another machine.
func TestTasksTravelAsJSON(t *testing.T) {
	tr := tiny(3, 300, 3000)
	hash := HashTrace(tr)
	policies := []string{"tier-order", "gmt-reuse{k=3}", "random{p=0.3}", "bypass{t1=s3-fifo}", "tier-order{t1=w-tinylfu,t2=2q(kin=0.3)}"}
	rapid.Check(t, func(rt *rapid.T) {
		cut := rapid.IntRange(0, 3000).Draw(rt, "cut")
		task := Task{Trace: hash, Cuts: []int{cut, rapid.IntRange(cut, 3000).Draw(rt, "end")},
			Rate: rapid.Float64Range(0.3, 1).Draw(rt, "rate"), SampleSeed: rapid.Uint64().Draw(rt, "sample seed"),
			GPUFrames: rapid.IntRange(30, 90).Draw(rt, "gpu"), HostFrames: rapid.SampledFrom([]int{0, 60, 200}).Draw(rt, "host"),
			Policy: parse(t, rapid.SampledFrom(policies).Draw(rt, "policy")).String(), Seed: rapid.Uint64().Draw(rt, "seed")}
		if rapid.Bool().Draw(rt, "bound") {
			task.Policy, task.Seed, task.Bound = "", 0, true
		}
		text, err := json.Marshal(task)
		if err != nil {
			rt.Fatal(err)
		}
		var back Task
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(task, back) || task.Key() != back.Key() {
			rt.Fatalf("%s came back as %+v: %v", text, back, err)
		}
		first, err := Evaluate(t.Context(), tr, task)
		if err != nil {
			rt.Fatal(err)
		}
		second, err := Evaluate(t.Context(), tr, back)
		if err != nil || !reflect.DeepEqual(first, second) {
			rt.Fatalf("the same task gives %+v and %+v: %v", first, second, err)
		}
		var outcome Outcome
		if text, err = json.Marshal(first); err != nil {
			rt.Fatal(err)
		}
		if err := json.Unmarshal(text, &outcome); err != nil || !reflect.DeepEqual(first, outcome) {
			rt.Fatalf("%s came back as %+v: %v", text, outcome, err)
		}
	})
}

// Every field of a task is in its key.
func TestKeyHasEverything(t *testing.T) {
	base := Task{Trace: "t", Cuts: []int{1, 2}, Rate: 0.5, SampleSeed: 3, GPUFrames: 4, HostFrames: 5, Policy: "lru", Seed: 6}
	keys := map[string]string{base.Key(): "nothing"}
	v := reflect.ValueOf(&base).Elem()
	for i := range v.NumField() {
		changed := base
		f := reflect.ValueOf(&changed).Elem().Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString("other")
		case reflect.Int:
			f.SetInt(99)
		case reflect.Uint64:
			f.SetUint(99)
		case reflect.Float64:
			f.SetFloat(0.25)
		case reflect.Bool:
			f.SetBool(true)
		default:
			f.Set(reflect.ValueOf([]int{1, 3}))
		}
		name := v.Type().Field(i).Name
		if was, ok := keys[changed.Key()]; ok {
			t.Errorf("a change of %s has the key of a change of %s", name, was)
		}
		keys[changed.Key()] = name
	}
}

func TestHashTraceNamesContent(t *testing.T) {
	a := tiny(1, 100, 50_000)
	b := tiny(1, 100, 50_000)
	b.Info.Name, b.Info.Requests = "other", 9
	if HashTrace(a) != HashTrace(b) {
		t.Error("the name changes the hash")
	}
	for _, i := range []int{0, 16383, 16384, 49_999} {
		was := b.Accesses[i]
		if b.Accesses[i] ^= 4; HashTrace(a) == HashTrace(b) {
			t.Errorf("access %d is not in the hash", i)
		}
		b.Accesses[i] = was
	}
	if b.Accesses = b.Accesses[:49_999]; HashTrace(a) == HashTrace(b) {
		t.Error("the length is not in the hash")
	}
}

// Windows are what sim.Replay counts: the first of a cold start, and all of them
// together of the whole trace.
func TestEvaluateEqualsReplay(t *testing.T) {
	tr := tiny(5, 400, 6000)
	for _, policy := range []string{"tier-order", "gmt-reuse{window=64,vtd-direct=100}", "random{t1=arc,t2=lirs,t2copy=keep}"} {
		spec := parse(t, policy)
		o, err := Evaluate(t.Context(), tr, Task{Cuts: []int{2500, 6000}, Rate: 1, Policy: spec.String(), GPUFrames: 40, HostFrames: 90, Seed: 4})
		if err != nil {
			t.Fatal(err)
		}
		job := []sim.Job{{Policy: spec, GPUFrames: 40, HostFrames: 90, Seed: 4}}
		var want []Counts
		for _, n := range []int{2500, 6000} {
			r, err := sim.Replay(t.Context(), &sim.Trace{Info: tr.Info, Accesses: tr.Accesses[:n]}, job, sim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := r[0].Counters
			want = append(want, Counts{c.Accesses, c.T1Hits, c.T2Hits, c.SSDReads(), c.Writebacks + c.FinalDirty, c.Demotions - c.CopiesSaved})
		}
		sum := o.Windows[0]
		sum.Accesses += o.Windows[1].Accesses
		sum.T1Hits += o.Windows[1].T1Hits
		sum.T2Hits += o.Windows[1].T2Hits
		sum.SSDReads += o.Windows[1].SSDReads
		sum.SSDWrites += o.Windows[1].SSDWrites
		sum.Demotions += o.Windows[1].Demotions
		if d := cmp.Diff([]Counts{o.Windows[0], sum}, want); d != "" {
			t.Errorf("%s:\n%s", policy, d)
		}
	}
}

// A miniature has the policy, the frames and the accesses of its share.
func TestEvaluateScales(t *testing.T) {
	tr := tiny(5, 4000, 40_000)
	policy := parse(t, "gmt-reuse{vtd-direct=2000,window=200,starve=0.02,fit-every=64,k=2}")
	task := Task{Cuts: []int{10_000, 30_000}, Rate: 0.25, SampleSeed: 9, Policy: policy.String(), GPUFrames: 400, HostFrames: 800, Seed: 2}
	got, err := Evaluate(t.Context(), tr, task)
	if err != nil {
		t.Fatal(err)
	}
	whole := &sim.Trace{Info: tr.Info, Accesses: tr.Accesses[:30_000]}
	s := whole.Sample(0.25, 9)
	first := len((&sim.Trace{Info: tr.Info, Accesses: tr.Accesses[:10_000]}).Sample(0.25, 9).Trace.Accesses)
	job := sim.Job{Policy: policy.Scaled(s.Share), GPUFrames: s.Frames(400), HostFrames: s.Frames(800), Seed: 2}
	c, err := sim.Snapshots(t.Context(), s.Trace, job, first, len(s.Trace.Accesses))
	if err != nil {
		t.Fatal(err)
	}
	if got.Windows[1] != since(&c[0], &c[1]) || got.Windows[0].SSDReads != c[0].SSDReads() || got.Share != s.Share {
		t.Errorf("got %+v, want %+v", got, c)
	}
	job.Policy = policy
	if c, err = sim.Snapshots(t.Context(), s.Trace, job, first, len(s.Trace.Accesses)); err != nil || got.Windows[1] == since(&c[0], &c[1]) {
		t.Errorf("scaling changes nothing here: the test tests nothing (%v)", err)
	}
	if n := got.Weight * float64(len(s.Trace.Accesses)); n < 29_999 || n > 30_001 {
		t.Errorf("weight %g of %d accesses is no 30,000", got.Weight, len(s.Trace.Accesses))
	}
}

// The bound of a window is never beaten in it, whatever came before and whatever
// the policy had in its tiers.
func TestWindowBoundIsNeverBeaten(t *testing.T) {
	policies := []string{"tier-order", "tier-order{t1=belady,t2=belady}", "bypass{t1=belady}", "gmt-reuse", "random{t1=arc,t2=2q}", "tier-order{t1=lirs,t2=w-tinylfu}"}
	rapid.Check(t, func(rt *rapid.T) {
		tr := tiny(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(5, 80).Draw(rt, "pages"), 800)
		cut := rapid.IntRange(0, 800).Draw(rt, "cut")
		task := Task{Cuts: []int{cut, 800}, Rate: 1, GPUFrames: rapid.IntRange(3, 20).Draw(rt, "gpu"), HostFrames: rapid.IntRange(3, 20).Draw(rt, "host")}
		bound := task
		bound.Bound = true
		least, err := Evaluate(context.Background(), tr, bound)
		if err != nil {
			rt.Fatal(err)
		}
		task.Policy = parse(t, rapid.SampledFrom(policies).Draw(rt, "policy")).String()
		got, err := Evaluate(context.Background(), tr, task)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range got.Windows {
			if got.Windows[i].SSDReads < least.Windows[i].SSDReads {
				rt.Fatalf("%s, window %d: %d SSD reads, fewer than the fewest possible, %d", task.Policy, i, got.Windows[i].SSDReads, least.Windows[i].SSDReads)
			}
		}
	})
}

// The bound of a warm window is not the cold one: what tiers can hold is saved.
func TestWindowBoundIsTight(t *testing.T) {
	tr := tiny(1, 50, 400)
	o, err := Evaluate(t.Context(), tr, Task{Cuts: []int{200, 400}, Rate: 1, Bound: true, GPUFrames: 50})
	if err != nil {
		t.Fatal(err)
	}
	seen, fresh := map[placement.Page]bool{}, uint64(0)
	for i, a := range tr.Accesses {
		if i >= 200 && !seen[a.Page()] {
			fresh++
		}
		seen[a.Page()] = true
	}
	if o.Windows[1].SSDReads != fresh {
		t.Errorf("with room for all pages %d reads are needed, want %d: the pages not used before", o.Windows[1].SSDReads, fresh)
	}
}

func TestEvaluateRefuses(t *testing.T) {
	tr := tiny(1, 50, 400)
	good := Task{Cuts: []int{400}, Rate: 1, Policy: "lru", GPUFrames: 5}
	if _, err := Evaluate(t.Context(), tr, good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Task){
		"no cuts": func(t *Task) { t.Cuts = nil }, "descending": func(t *Task) { t.Cuts = []int{5, 4} },
		"beyond": func(t *Task) { t.Cuts = []int{401} }, "rate 0": func(t *Task) { t.Rate = 0 }, "rate 2": func(t *Task) { t.Rate = 2 },
		"policy": func(t *Task) { t.Policy = "nothing" }, "small": func(t *Task) { t.Policy = "s3-fifo"; t.GPUFrames = 1 },
	} {
		task := good
		change(&task)
		if _, err := Evaluate(t.Context(), tr, task); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	l := NewLocal(map[string]*sim.Trace{"a": tr}, 1)
	if err := l.Evaluate(t.Context(), []Task{good}, func(int, Outcome) {}); err == nil {
		t.Error("an unknown trace is accepted")
	}
}
