package soft_test

import (
	"flag"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

var storeMiB = flag.Int("store", 1024, "MiB of store that BenchmarkServe reads, a power of two: 4 fit into caches, 8192 exceed TLBs")

const (
	serveQueues = 16
	serveDepth  = 64
	serveBatch  = 32 // commands per doorbell
)

// ring is the host's side of one queue pair that is used with plain stores.
type ring struct {
	l        libnvm.Layout
	tail, cq uint32
	phase    uint32
	payload  uint64 // IOVA of serveBatch buffers
}

// submit writes a batch of reads of size bytes at random blocks of a store with
// a power of two of them, and rings the doorbell.
func (r *ring) submit(rng *uint64, size int, mask uint64) {
	for i := range uint64(serveBatch) {
		*rng = *rng*6364136223846793005 + 1442695040888963407
		lba := *rng >> 32 & mask * uint64(size/512)
		*(*libnvm.Command)(unsafe.Add(r.l.SQ, r.tail*64)) = libnvm.Command{
			Opcode: libnvm.OpRead, CID: uint16(i), NSID: 1, PRP1: r.payload + i*uint64(size),
			CDW10: uint32(lba), CDW11: uint32(lba >> 32), CDW12: uint32(size/512 - 1),
		}
		r.tail = (r.tail + 1) % serveDepth
	}
	r.l.SQDoorbell.Ring(r.tail)
}

// consume takes a batch of completions, which must be there.
func (r *ring) consume(b *testing.B) {
	for i := range uint32(serveBatch) {
		dw3 := libnvmLoad((*uint32)(unsafe.Add(r.l.CQ, r.cq*16+12)))
		if dw3 != i|r.phase<<16 {
			b.Fatalf("completion %d of queue %d: %#x", i, r.l.ID, dw3)
		}
		if r.cq++; r.cq == serveDepth {
			r.cq, r.phase = 0, r.phase^1
		}
	}
	r.l.CQDoorbell.Ring(r.cq)
}

// serveBare is what any controller must do, and no more: look at the doorbell,
// read the entry, move the data, write the completion.
func (r *ring) serveBare(head *uint32, store, payload []byte, size int) {
	cq, phase := r.cq, r.phase
	for tail := libnvmLoad((*uint32)(r.l.SQDoorbell.Pointer())); *head != tail; {
		s := (*libnvm.Command)(unsafe.Add(r.l.SQ, *head*64))
		off := (uint64(s.CDW10) | uint64(s.CDW11)<<32) * 512
		dst := s.PRP1 - r.payload
		copy(payload[dst:dst+uint64(size)], store[off:off+uint64(size)])
		*head = (*head + 1) % serveDepth
		e := unsafe.Slice((*uint32)(unsafe.Add(r.l.CQ, cq*16)), 4)
		e[0], e[1], e[2] = 0, 0, *head
		libnvmStore(&e[3], uint32(s.CID)|phase<<16)
		if cq++; cq == serveDepth {
			cq, phase = 0, phase^1
		}
	}
}

// BenchmarkServe is what one service thread can do for hosts that keep it busy,
// as GPUs do: 16 queues, 32 commands to a doorbell. The thread is lent, so that
// one processor does the host's part and the controller's by turns, and only
// the latter's time counts: ns/command. "bare" is a loop without any check.
func BenchmarkServe(b *testing.B) {
	for _, size := range []int{512, 4096} {
		b.Run(fmt.Sprintf("bare/%d", size), func(b *testing.B) { benchServe(b, size, true) })
		b.Run(fmt.Sprintf("soft/%d", size), func(b *testing.B) { benchServe(b, size, false) })
	}
}

func benchServe(b *testing.B, size int, bare bool) {
	store, err := soft.NewMemory(int64(*storeMiB) << 20)
	if err != nil {
		b.Fatal(err)
	}
	data := store.Bytes()
	for i := 0; i < len(data); i += 512 {
		data[i] = byte(i >> 9)
	}
	s := start(b, 0, soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: store, BlockSize: 512}}})
	c := bringUp(b, s, libnvm.Config{})
	rings := make([]ring, serveQueues)
	payload, err := s.Alloc(serveQueues * serveBatch * size)
	if err != nil {
		b.Fatal(err)
	}
	for i := range rings {
		q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: serveDepth})
		if err != nil {
			b.Fatal(err)
		}
		iova, _ := payload.IOVA(i * serveBatch * size)
		rings[i] = ring{l: q.Layout(), phase: 1, payload: iova}
	}
	server, err := s.Lend(0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := server.Return(); err != nil {
			b.Error(err)
		}
	}()
	var heads [serveQueues]uint32
	rng, commands, spent := uint64(1), 0, time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		for i := range rings {
			rings[i].submit(&rng, size, uint64(len(data)/size-1))
		}
		begun := time.Now()
		if !bare {
			server.Serve(0)
		}
		for i := range rings {
			if r := &rings[i]; bare {
				r.serveBare(&heads[i], data, payload.Bytes()[i*serveBatch*size:], size)
			}
		}
		spent += time.Since(begun)
		for i := range rings {
			rings[i].consume(b)
		}
		commands += serveQueues * serveBatch
	}
	ns := float64(spent) / float64(commands)
	b.ReportMetric(ns, "ns/command")
	b.ReportMetric(float64(size)/ns, "GB/s")
	b.ReportMetric(0, "ns/op")
}
