// Package iobenchfake gives the kernels of the load of I/O to a software GPU
// (cuda/cudafake), with the queue code of bamiofake: so that tritier bench io
// runs, and is tested, on machines without a GPU.
package iobenchfake

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// Register makes the fake run the kernels of iobench.cu: each as the device's
// code does by its contract. A warp is a goroutine, which runs the commands of
// its lanes one after the other.
func Register(g *cudafake.GPU) {
	g.RegisterKernel("run_load", RunLoad)
	g.RegisterKernel("mailbox", mailbox)
}

// load is the Load of iobench.cu, and what it points to.
type load struct {
	device                       *bamiofake.Device
	target                       []byte
	results                      [8 + 2*statuses]*uint64
	histogram, sms               []byte
	blocks, turns, seed, data    uint64
	warps, span, share, pattern  uint32
	lanes, pull, perBlock, bytes uint32
	blockSize                    uint64
	launch                       *cudafake.Launch
}

// The words of Results.
const (
	reads = iota
	writes
	failed
	bad
	firstStatus
	firstBad
	begun
	ended
	statusTable // pairs of status + 1 and count
)

const buckets, maxSMs, statuses, fakeSMs = 256, 1024, 32, 132

func openLoad(l *cudafake.Launch) (*load, error) {
	d, err := bamiofake.Open(l, l.U64(0))
	if err != nil {
		return nil, err
	}
	x := &load{
		device: d, launch: l, blocks: l.U64(40), turns: l.U64(48), seed: l.U64(56), data: l.U64(64),
		warps: l.U32(72), span: l.U32(76), share: l.U32(80), pattern: l.U32(84), lanes: l.U32(88), pull: l.U32(92),
		perBlock: l.Block[0] / 32, blockSize: uint64(d.Drives[0].BlockSize),
	}
	x.bytes = x.span * d.Drives[0].BlockSize
	if x.target, err = l.Memory(l.U64(8), uint64(x.warps)*uint64(x.lanes)*uint64(x.bytes)); err != nil {
		return nil, err
	}
	for i := range x.results {
		if x.results[i], err = l.Word64(l.U64(16) + 8*uint64(i)); err != nil {
			return nil, err
		}
	}
	if at := l.U64(24); at != 0 {
		if x.histogram, err = l.Memory(at, 4*buckets); err != nil {
			return nil, err
		}
	}
	x.sms, err = l.Memory(l.U64(32), 4*maxSMs)
	return x, err
}

// sums are a warp's share of Results.
type sums struct {
	n         [4]uint64 // by reads, writes, failed, bad
	latencies [buckets]uint32
	over      bool // the queue is of no more use
}

// RunLoad is the kernel run_load, for tests that put something in its way.
func RunLoad(l *cudafake.Launch) error {
	x, err := openLoad(l)
	if err != nil {
		return err
	}
	if threads := uint64(x.warps) * 32; l.Threads() < threads {
		return fmt.Errorf("%d threads launched for %d warps", l.Threads(), x.warps)
	}
	atomic.StoreUint64(x.results[begun], uint64(time.Now().UnixNano()))
	var group sync.WaitGroup
	var mu sync.Mutex // of histogram and sms
	for warp := range x.warps {
		group.Go(func() {
			s := x.warp(warp)
			for i, n := range s.n {
				atomic.AddUint64(x.results[i], n)
			}
			mu.Lock()
			defer mu.Unlock()
			binary.LittleEndian.PutUint32(x.sms[4*(warp/x.perBlock%fakeSMs):], 1)
			if x.histogram == nil {
				return
			}
			for i, n := range s.latencies {
				at := x.histogram[4*i:]
				binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)+n)
			}
		})
	}
	group.Wait()
	atomic.StoreUint64(x.results[ended], uint64(time.Now().UnixNano()))
	return nil
}

func (x *load) warp(warp uint32) *sums {
	s := &sums{}
	for t := uint64(0); t < x.turns; t++ {
		x.turn(s, warp, t)
		if s.over || s.n[failed] >= 8 && s.n[reads]+s.n[writes] == 0 || x.device.Stopped() {
			break
		}
	}
	return s
}

// turn is one batch of a warp, as turn of iobench.cu.
func (x *load) turn(s *sums, warp uint32, t uint64) {
	drives := uint64(len(x.device.Drives))
	drive := uint64(warp) % drives
	v := &x.device.Drives[drive]
	queue := int(v.FirstQueue) + int(uint64(warp)/drives)%int(v.QueueCount)
	op, kind := uint32(bamiofake.Write), writes
	if uint32(mix(x.seed^(t*uint64(x.warps)+uint64(warp))<<20)&255) < x.share {
		op, kind = bamiofake.Read, reads
	}
	data := contents(x.data, drive)
	for lane := range uint64(x.lanes) {
		mine := (t*((uint64(x.warps)+drives-1)/drives)+uint64(warp)/drives)*uint64(x.lanes) + lane
		spans := x.blocks / uint64(x.span)
		at := mine % spans
		if x.pattern == 0 {
			at = mix(x.seed+mine*drives+drive) % spans
		}
		place := (uint64(warp)*uint64(x.lanes) + lane) * uint64(x.bytes)
		unit := uint64(x.device.Engine.Payload.Bytes)
		c := bamiofake.Span{LBA: at * uint64(x.span), Blocks: x.span, Buffer: uint32(place / unit), Offset: uint32(place % unit)}
		buffer := x.device.Buffer(int(c.Buffer))[c.Offset:][:x.bytes]
		if op == bamiofake.Write {
			fill(buffer, data, c.LBA*x.blockSize/16)
		}
		from := time.Now()
		st := x.device.Transfer(queue, op, c)
		if st != layout.OK {
			s.n[failed]++
			s.over = s.over || st == layout.QueueFailed || st == layout.DeviceGone || st == layout.Stopped
			atomic.CompareAndSwapUint64(x.results[firstStatus], 0, uint64(st)+1)
			x.countError(st)
			continue
		}
		s.latencies[bucketOf(uint64(time.Since(from)))]++
		s.n[kind]++
		if op == bamiofake.Read && x.pull != 0 {
			copy(x.target[place:], buffer)
			if n := wrong(buffer, data, c.LBA*x.blockSize/16); n > 0 {
				s.n[bad] += n
				atomic.CompareAndSwapUint64(x.results[firstBad], 0, c.LBA+1)
			}
		}
	}
}

// countError counts a command by its status, as count_error of iobench.cu.
func (x *load) countError(status uint32) {
	key := uint64(status) + 1
	for i := statusTable; i < len(x.results); i += 2 {
		if atomic.CompareAndSwapUint64(x.results[i], 0, key) || atomic.LoadUint64(x.results[i]) == key {
			atomic.AddUint64(x.results[i+1], 1)
			return
		}
	}
}

// contents is the seed of one drive's contents.
func contents(data, drive uint64) uint64 { return mix(data + (drive+1)*0x9e3779b97f4a7c15) }

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// piece puts what the i-th 16 bytes of a drive with these contents hold into b.
func piece(b []byte, data, i uint64) {
	v := (i+1)*0x9e3779b97f4a7c15 ^ data
	binary.LittleEndian.PutUint64(b, v)
	binary.LittleEndian.PutUint32(b[8:], uint32(i))
	binary.LittleEndian.PutUint32(b[12:], ^uint32(v))
}

func fill(b []byte, data, first uint64) {
	for i := 0; i < len(b); i += 16 {
		piece(b[i:], data, first+uint64(i/16))
	}
}

// wrong counts the pieces that hold something else.
func wrong(b []byte, data, first uint64) (n uint64) {
	var want [16]byte
	for i := 0; i < len(b); i += 16 {
		piece(want[:], data, first+uint64(i/16))
		if want != [16]byte(b[i:]) {
			n++
		}
	}
	return n
}

func bucketOf(ns uint64) uint64 {
	if ns < 256 {
		return 0
	}
	top := uint64(bits.Len64(ns)) - 1
	return min((top-8)*8+ns>>(top-3)&7, buckets-1)
}

// mailbox asks the host with every number and waits for its answer.
func mailbox(l *cudafake.Launch) error {
	question, err := l.Word32(l.U64(0))
	if err != nil {
		return err
	}
	answer, err := l.Word32(l.U64(0) + 128)
	if err != nil {
		return err
	}
	var out [2]*uint64
	for i := range out {
		if out[i], err = l.Word64(l.U64(24) + 8*uint64(i)); err != nil {
			return err
		}
	}
	rounds, limit, from := l.U32(8), time.Duration(l.U64(16)), time.Now()
	for i := uint32(1); i <= rounds; i++ {
		atomic.StoreUint32(question, i)
		for atomic.LoadUint32(answer) != i {
			select {
			case <-l.Done():
				return &cudafake.Fault{Result: cuda.LaunchFailed, Text: "ended while it waited for the host"}
			default:
			}
			if time.Since(from) > limit {
				atomic.StoreUint64(out[1], uint64(i))
				return nil
			}
			runtime.Gosched()
		}
	}
	atomic.StoreUint64(out[0], uint64(time.Since(from)))
	atomic.StoreUint64(out[1], uint64(rounds)+1)
	return nil
}
