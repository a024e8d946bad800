package soft_test

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// BenchmarkWake is how soon a command is answered that comes after a pause, by a
// service thread with 32 queues: median and 99th percentile. It needs a
// processor for the thread and one for the host, which does not sleep: beside
// other programs it measures how the kernel shares the processors.
func BenchmarkWake(b *testing.B) {
	for _, pause := range []time.Duration{0, 20 * time.Microsecond, 50 * time.Microsecond, 200 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		b.Run(pause.String(), func(b *testing.B) { benchWake(b, pause) })
	}
}

func benchWake(b *testing.B, pause time.Duration) {
	s := start(b, 1<<20, soft.Config{})
	c := bringUp(b, s, libnvm.Config{})
	var l libnvm.Layout
	for range 32 {
		q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 64})
		if err != nil {
			b.Fatal(err)
		}
		l = q.Layout()
	}
	var took []time.Duration
	for n := uint32(0); b.Loop(); n++ {
		for begun := time.Now(); time.Since(begun) < pause; {
		}
		begun := time.Now()
		*(*libnvm.Command)(unsafe.Add(l.SQ, n%64*64)) = libnvm.Command{Opcode: libnvm.OpFlush, NSID: 1}
		l.SQDoorbell.Ring((n + 1) % 64)
		phase := (*uint32)(unsafe.Add(l.CQ, n%64*16+12))
		for libnvmLoad(phase)>>16&1 != n/64&1^1 {
			if time.Since(begun) > 10*time.Second {
				b.Fatal("no completion")
			}
		}
		took = append(took, time.Since(begun))
		l.CQDoorbell.Ring((n + 1) % 64)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e3, "us-p50")
	b.ReportMetric(float64(took[len(took)*99/100])/1e3, "us-p99")
	b.ReportMetric(0, "ns/op")
}
