package soft_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

const fileDepth = 32

// BenchmarkFileRandRead reads 4 KiB blocks at random, 32 at a time, from a file
// through the software controller: served by a thread of its own, or by the
// thread of the driver (Lend). The file is named by TRITIER_BENCH_FILE, so that
// scripts/bench-file.sh can give fio the same one; without it a small one is
// made.
func BenchmarkFileRandRead(b *testing.B) {
	b.Run("threads=2", func(b *testing.B) {
		r := newFileReader(b)
		r.run(driverPause())
	})
	b.Run("threads=1", func(b *testing.B) {
		r := newFileReader(b)
		server, err := r.s.Lend(0)
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := server.Return(); err != nil {
				b.Error(err)
			}
		}()
		r.run(func(int) { server.Serve(time.Millisecond) })
	})
}

// driverPause is what a driver's thread does after polling in vain a number of
// times. Sleep costs tens of microseconds of every round in which the drive has
// nothing to do, so a driver that has a processor to spare polls on. Where
// processors are few, polling takes one from what serves the drive.
func driverPause() func(idle int) {
	if runtime.NumCPU() >= 4 {
		return func(int) {}
	}
	return func(idle int) {
		if idle > 500 {
			ts := unix.NsecToTimespec(int64(20 * time.Microsecond))
			_ = unix.Nanosleep(&ts, nil) // an early end by a signal does no harm
		}
	}
}

// fileReader is the driver's side.
type fileReader struct {
	b     *testing.B
	s     *soft.Controller
	q     *libnvm.QueuePair
	ns    *libnvm.Namespace
	buf   *libnvm.Memory
	rng   *rand.Rand
	batch []libnvm.Request
	sent  int
}

func newFileReader(b *testing.B) *fileReader {
	path, o := os.Getenv("TRITIER_BENCH_FILE"), soft.FileOptions{BlockSize: 4096}
	if path == "" {
		path, o.Size = filepath.Join(b.TempDir(), "disk"), 64<<20
	}
	f, err := soft.OpenFile(path, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Log(f.Describe())
	r := &fileReader{b: b, rng: rand.New(rand.NewPCG(1, 2)), batch: make([]libnvm.Request, 0, fileDepth)}
	r.s = start(b, 0, soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: f}}})
	c := bringUp(b, r.s, libnvm.Config{})
	if r.ns, err = c.Namespace(1); err != nil {
		b.Fatal(err)
	}
	if r.q, err = c.CreateQueuePair(libnvm.QueueConfig{Depth: 2 * fileDepth}); err != nil {
		b.Fatal(err)
	}
	if r.buf, err = r.s.Alloc(fileDepth * 4096); err != nil {
		b.Fatal(err)
	}
	return r
}

// send reads a random block into each of the slots.
func (r *fileReader) send(slots []uint64) {
	r.batch = r.batch[:0]
	for _, i := range slots {
		if r.sent < r.b.N {
			r.batch = append(r.batch, libnvm.Request{Op: libnvm.OpRead, NS: r.ns, LBA: r.rng.Uint64N(r.ns.Blocks), Blocks: 1, Mem: r.buf, Offset: int(i) * 4096, Tag: i})
			r.sent++
		}
	}
	if _, _, err := r.q.SubmitBatch(r.batch); err != nil {
		r.b.Fatal(err)
	}
}

// run keeps all slots busy and calls pause when nothing has finished.
func (r *fileReader) run(pause func(idle int)) {
	runtime.LockOSThread() // for the timer slack, which is a thread's own
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(time.Microsecond), 0, 0, 0)
	done := make([]libnvm.Completion, fileDepth)
	slots := make([]uint64, fileDepth)
	for i := range slots {
		slots[i] = uint64(i)
	}
	r.b.SetBytes(4096)
	r.b.ReportAllocs()
	r.b.ResetTimer()
	r.send(slots)
	idle := 0
	for got := 0; got < r.b.N; {
		n := r.q.Poll(done)
		if n == 0 {
			idle++
			pause(idle)
			continue
		}
		for i, d := range done[:n] {
			if d.Err != nil {
				r.b.Fatal(d.Err)
			}
			slots[i] = d.Tag
		}
		got += n
		idle = 0
		r.send(slots[:n])
	}
	r.b.StopTimer()
	r.b.ReportMetric(float64(r.b.N)/r.b.Elapsed().Seconds(), "IOPS")
}
