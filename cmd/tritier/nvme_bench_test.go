package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
)

// Percentiles are those of the sorted values, to within a bucket.
func TestLatencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l, half latencies
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(0, 1<<rapid.IntRange(1, 43).Draw(t, "bits")).Draw(t, "ns")
		}), 1, 200).Draw(t, "values")
		for i, v := range values {
			if i%2 == 0 {
				half.add(v)
			} else {
				l.add(v)
			}
		}
		l.merge(&half)
		slices.Sort(values)
		for _, p := range []float64{0.001, 0.5, 0.99, 0.999, 1} {
			want := float64(values[max(int(math.Ceil(p*float64(len(values)))), 1)-1])
			if got := float64(l.percentile(p)); math.Abs(got-want) > want/128 {
				t.Fatalf("p%g of %v is %g, want %g", p*100, values, got, want)
			}
		}
	})
	var l latencies
	if got := l.percentile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
	l.add(-5)
	l.add(math.MaxInt64)
	if lo, hi := l.percentile(0.5), l.percentile(1); lo != 0 || hi < 1<<43 {
		t.Errorf("values out of range count as %v and %v", lo, hi)
	}
	if n := testing.AllocsPerRun(100, func() { l.add(12345) }); n != 0 {
		t.Errorf("adding allocates %g times", n)
	}
}

// Any bit that differs is found, at its place; so is data of another place, seed or drive.
func TestPattern(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	key := patternKey(7, 0)
	b := make([]byte, 8192)
	for range 200 {
		offset := rng.Uint64N(1<<40) * 512
		stamp(b, key, offset)
		if m := verify(b, key, offset); m != nil {
			t.Fatal(m)
		}
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		if m := verify(b, key, offset); m == nil || m.Offset != offset+uint64(at)&^7 {
			t.Fatalf("a flipped bit of byte %d at %d: %v", at, offset, m)
		}
		stamp(b, key, offset)
		if verify(b, key, offset+512) == nil || verify(b, patternKey(8, 0), offset) == nil || verify(b, patternKey(7, 1), offset) == nil {
			t.Fatal("the pattern of another place, seed or drive passes")
		}
		spoil(b, key, offset)
		for k := 0; k < len(b); k += 512 {
			if verify(b[k:k+512], key, offset+uint64(k)) == nil {
				t.Fatalf("block %d passes after spoiling", k/512)
			}
		}
	}
}

func TestParseSweep(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []uint64
	}{
		{"1", []uint64{1}}, {"1..8", []uint64{1, 2, 4, 8}}, {"3..13", []uint64{3, 6, 12}}, {"4,1..2", []uint64{4, 1, 2}}, {"0", nil}, {"1..64", nil}, {"2..1", nil}, {"..", nil}, {"1..", nil}, {"", nil},
	} {
		got, err := parseSweep("--depth", strings.Split(c.in, ","), countQuantity, 1, 32)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v, %v, want %v", c.in, got, err, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{9, 1, 5, 3}, 4}} {
		var r row
		for _, v := range c.in {
			r.runs = append(r.runs, figures{iops: v})
		}
		if got := r.median(func(f *figures) float64 { return f.iops }); got != c.want {
			t.Errorf("median of %v: %g, want %g", c.in, got, c.want)
		}
	}
}

// testBench is a bench over an opened drive.
func testBench(t *testing.T, o drive.Options, cells ...cell) (*bench, *bytes.Buffer) {
	t.Helper()
	ds, err := drive.OpenList(context.WithoutCancel(t.Context()), "mem:1MiB", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drive.CloseAll(ds); err != nil {
			t.Error(err)
		}
	})
	var stderr bytes.Buffer
	f := &benchFlags{runs: 1, threads: 1, seed: 1}
	return &bench{f: f, drives: ds, cells: cells, length: time.Minute, stderr: &stderr}, &stderr
}

var tinyCell = cell{work: ioPattern{name: "randread", random: true, read: true}, size: 4096, depth: 2, queues: 1}

// Without injected faults an I/O that hangs ends the bench at its deadline,
// with the state of the queue.
func TestBenchHang(t *testing.T) {
	plan, err := soft.NewFaultPlan(1, soft.Rule{Skip: 20, Fault: soft.Fault{Drop: true}})
	if err != nil {
		t.Fatal(err)
	}
	o := drive.Options{Faults: func(int) soft.Faults { return plan }, Driver: libnvm.Config{IOTimeout: 300 * time.Millisecond}}
	b, stderr := testBench(t, o, tinyCell)
	if err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	err = b.sweep(t.Context())
	var late *libnvm.TimeoutError
	if !errors.As(err, &late) || time.Since(begun) > 20*time.Second {
		t.Errorf("%v after %v, want a *libnvm.TimeoutError", err, time.Since(begun))
	}
	if s := stderr.String(); !strings.Contains(s, "quarantined, Read, namespace 1") {
		t.Errorf("no dump of the queue in %q", s)
	}
}

// A drive that fails or vanishes ends the bench with that error.
func TestBenchGone(t *testing.T) {
	for name, fault := range map[string]soft.Fault{"gone": {Gone: true}, "fatal": {Fatal: true}} {
		t.Run(name, func(t *testing.T) {
			plan, err := soft.NewFaultPlan(1, soft.Rule{Skip: 20, Fault: fault})
			if err != nil {
				t.Fatal(err)
			}
			o := drive.Options{Faults: func(int) soft.Faults { return plan }, Driver: libnvm.Config{IOTimeout: 300 * time.Millisecond, ReadyTimeout: time.Second}}
			ds, err := drive.OpenList(context.WithoutCancel(t.Context()), "mem:1MiB", o)
			if err != nil {
				t.Fatal(err)
			}
			b := &bench{f: &benchFlags{runs: 1, threads: 1, seed: 1}, drives: ds, cells: []cell{tinyCell}, length: time.Minute, area: 1 << 20, stderr: &bytes.Buffer{}}
			err = b.sweep(t.Context())
			var gone *libnvm.DeviceGoneError
			var fatal *libnvm.ControllerFatalError
			if !errors.As(err, &gone) && !errors.As(err, &fatal) {
				t.Errorf("%v", err)
			}
			_ = drive.CloseAll(ds) // may say again that the device is gone
		})
	}
}

// Ctrl-C keeps the rows that are known and waits for what is in flight.
func TestBenchInterrupted(t *testing.T) {
	b, _ := testBench(t, drive.Options{}, tinyCell, tinyCell, tinyCell)
	if err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.ios = 20
	first := b.cells[:1]
	all := b.cells
	b.cells = first
	if err := b.sweep(ctx); err != nil || len(b.rows) != 1 || b.rows[0].ios < 20 {
		t.Fatalf("%+v, %v", b.rows, err)
	}
	b.cells, b.ios = all, 0
	time.AfterFunc(100*time.Millisecond, cancel)
	begun := time.Now()
	err := b.sweep(ctx)
	if !errors.Is(err, context.Canceled) || time.Since(begun) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	if n := len(b.rows); n < 1 || n > 2 { // the row that was running counts if an I/O of it was measured
		t.Errorf("%d rows", n)
	}
	var out bytes.Buffer
	if err := b.report(true).table(&out); err != nil || !strings.Contains(out.String(), "interrupted: ") {
		t.Errorf("%s, %v", &out, err)
	}
}

// Sequential I/O of a queue stays in its own part of the area and covers it.
func TestSequentialParts(t *testing.T) {
	b, _ := testBench(t, drive.Options{})
	b.area = 64 << 10
	c := cell{work: ioPattern{name: "seqread", read: true}, size: 4096, depth: 1, queues: 3}
	seen := map[uint64]int{}
	for q := range c.queues {
		w, err := b.newWorker(c, 0, q, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 * w.span / w.perIO {
			seen[w.request(0).LBA]++
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
	for i := range uint64(15) { // 16 I/Os in 3 parts of 5
		if seen[i*8] != 2 {
			t.Errorf("block %d was read %d times in two rounds", i*8, seen[i*8])
		}
	}
	if len(seen) != 15 {
		t.Errorf("%d places were read: %v", len(seen), seen)
	}
}

// Every byte of every read that counts is compared, and a read that moves
// nothing cannot pass: its buffer does not hold the pattern beforehand.
func TestEveryReadVerified(t *testing.T) {
	b, _ := testBench(t, drive.Options{}, tinyCell)
	b.f.verify, b.f.area, b.ios = true, 64<<10, 300
	if err := errors.Join(b.prepare(t.Context()), b.sweep(t.Context())); err != nil {
		t.Fatal(err)
	}
	if r := b.rows[0]; r.ios < 300 || r.verified < r.ios*4096 || r.mismatch != nil {
		t.Errorf("%d I/Os, %d bytes verified, %v", r.ios, r.verified, r.mismatch)
	}
	w, err := b.newWorker(tinyCell, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	w.rng = rand.New(rand.NewPCG(1, 1))
	r := w.request(0)
	stamp(w.buffer(0), w.key, r.LBA*512) // as after a good read
	w.rng = rand.New(rand.NewPCG(1, 1))
	if again := w.request(0); again.LBA != r.LBA {
		t.Fatal("the same seed chose another place")
	}
	if verify(w.buffer(0), w.key, r.LBA*512) == nil {
		t.Error("the buffer holds the pattern before the read")
	}
}
