package iobench_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/bamio/iobench"
	"github.com/tritier/tritier/bamio/iobench/iobenchfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm/drive"
)

// read is a job that reads at random from all drives.
func read(bytes int) iobench.Job {
	return iobench.Job{Bytes: bytes, ReadShare: 1, Warps: 6, Lanes: 4, Commands: 600, Seed: 5, Data: 7}
}

// testSwapped fills drives and reads them in another order: no drive holds what
// another one should, at any block.
func testSwapped(t *testing.T, ctx *cuda.Context) {
	t.Helper()
	ds, err := drive.OpenList(context.Background(), "mem:1MiB,mem:1MiB,mem:1MiB", drive.Options{Access: drive.FreshOnly, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := drive.CloseAll(ds); err != nil {
			t.Error(err)
		}
	}()
	run := func(order []*drive.Drive, fill bool) *iobench.Result {
		o := bamio.Options{GPU: ctx, Queues: 3, Depth: 16, Buffers: 96}
		for _, d := range order {
			o.Drives = append(o.Drives, bamio.Drive{Name: d.URI.String(), Controller: d.Controller})
		}
		e, err := bamio.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := iobench.New(e)
		if err == nil && fill {
			err = b.Fill(t.Context(), 4096, 3, 0, 7)
		}
		var r *iobench.Result
		if err == nil {
			r, err = b.Run(t.Context(), read(512))
		}
		if err := errors.Join(err, b.Close(), e.Close()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run(ds, true); r.BadPieces != 0 || r.Errors != 0 || r.Reads < 600 {
		t.Errorf("in order: %+v", *r)
	}
	if r := run([]*drive.Drive{ds[1], ds[2], ds[0]}, false); r.BadPieces != r.Reads*512/16 || r.Errors != 0 {
		t.Errorf("in another order: %d of %d pieces are wrong, want all", r.BadPieces, r.Reads*512/16)
	}
}

func TestSwappedDrives(t *testing.T) {
	_, ctx := fakeGPU(t)
	testSwapped(t, ctx)
}

// Queue code that reaches another drive than it means to is noticed.
func TestWrongDrive(t *testing.T) {
	f, ctx := fakeGPU(t)
	f.RegisterKernel("run_load", func(l *cudafake.Launch) error {
		if l.U32(80) != 0 { // reads go to the other drive's queues
			d, err := bamiofake.Open(l, l.U64(0))
			if err != nil {
				return err
			}
			first := &d.Drives[0].FirstQueue
			second := &d.Drives[1].FirstQueue
			*first, *second = *second, *first
			defer func() { *first, *second = *second, *first }()
		}
		return iobenchfake.RunLoad(l)
	})
	s := open(t, ctx, "mem:1MiB,mem:1MiB", 1, bamio.Options{Queues: 2, Depth: 16, Buffers: 96})
	defer s.close(t)
	if err := s.bench.Fill(t.Context(), 4096, 2, 0, 7); err != nil {
		t.Fatal(err)
	}
	r, err := s.bench.Run(t.Context(), read(4096))
	if err != nil {
		t.Fatal(err)
	}
	if r.BadPieces != r.Reads*4096/16 || r.Reads == 0 {
		t.Errorf("%d of %d pieces are wrong, want all", r.BadPieces, r.Reads*4096/16)
	}
}

// total adds the errors of a result up.
func total(r *iobench.Result) (n uint64) {
	for _, k := range r.Statuses {
		n += k
	}
	return n + r.OtherErrors
}
