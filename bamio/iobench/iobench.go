// Package iobench drives the load of tritier bench io: kernels that read and
// write the drives of a bamio.Engine and check every byte, and the figures of
// one run.
package iobench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
)

// Pattern is the order of the blocks.
type Pattern uint32

// The patterns.
const (
	Random     Pattern = iota
	Sequential         // all warps together go through the area, again and again
)

// Job is one run of the load.
type Job struct {
	Bytes     int     // of a command: a power of two from 512, at most a payload buffer if above 4 KiB
	ReadShare float64 // of the commands, 0 to 1; the others write
	Pattern   Pattern
	Area      uint64 // bytes of each drive that are used, from its start; 0 is all
	Warps     int    // of 32 GPU threads
	PerBlock  int    // warps in a thread block; 0 is 8
	Lanes     int    // commands of a warp at once, 1 to 32; 0 is 32
	Commands  uint64 // at least so many in all
	NoPayload bool   // leave the payload where it lands: nothing is checked
	Latency   bool   // count latencies
	Seed      uint64 // of the block numbers
	Data      uint64 // seed of the contents, which differ from drive to drive
}

// Result is what one run gave.
type Result struct {
	Reads, Writes uint64       // that succeeded
	Errors        uint64       // commands that ended with a status
	FirstStatus   bamio.Status // of the errors
	// Statuses counts the errors by status; nil without one. OtherErrors are those
	// of statuses beyond the first 32 different ones.
	Statuses    map[bamio.Status]uint64
	OtherErrors uint64
	BadPieces   uint64        // 16 bytes each that held something else
	BadBlock    uint64        // near the first of them
	Elapsed     time.Duration // on the GPU, from the first warp's start to the last one's end
	SMs         int           // that ran a warp
	Threads     int           // GPU threads that submitted
	Latencies   []uint64      // commands by Bucket; nil unless Job.Latency
}

// Bucket is the upper bound of latency bucket i.
func Bucket(i int) time.Duration {
	return time.Duration(math.Exp2(8 + float64(i+1)/8))
}

// Percentile is the upper bound of the bucket in which the fraction f of the
// commands lies; 0 without latencies.
func (r *Result) Percentile(f float64) time.Duration {
	var total, sum uint64
	for _, n := range r.Latencies {
		total += n
	}
	for i, n := range r.Latencies {
		if sum += n; total > 0 && float64(sum) >= f*float64(total) {
			return Bucket(i)
		}
	}
	return 0
}

// Rate is the number of commands that succeeded, in a second.
func (r *Result) Rate() float64 { return float64(r.Reads+r.Writes) / r.Elapsed.Seconds() }

// Bench runs jobs on one engine, one at a time.
type Bench struct {
	engine  *bamio.Engine
	kernels *kernels
	stream  *cuda.Stream
	target  *cuda.DeviceMemory
	control *cuda.DeviceMemory // Results, histogram, SM marks, one after the other
	back    *cuda.HostMemory
}

const controlBytes = resultsBytes + 4*buckets + 4*maxSms

// New makes a bench with room for targets of as many bytes as the engine has
// payload.
func New(e *bamio.Engine) (*Bench, error) {
	b := &Bench{engine: e}
	if err := b.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("bench of I/O: %w", err), b.Close())
	}
	return b, nil
}

func (b *Bench) open() (err error) {
	gpu := b.engine.Context()
	if b.kernels, err = loadKernels(gpu); err != nil {
		return err
	}
	if b.stream, err = gpu.NewStream(); err != nil {
		return err
	}
	count, size := b.engine.Buffers()
	if b.target, err = gpu.Alloc(uint64(count) * uint64(size)); err != nil {
		return err
	}
	if b.control, err = gpu.Alloc(controlBytes); err != nil {
		return err
	}
	b.back, err = gpu.AllocHost(controlBytes, 0)
	return err
}

// Close frees what the bench has. The engine stays open.
func (b *Bench) Close() error {
	var errs []error
	if b.stream != nil {
		errs = append(errs, b.stream.Close())
	}
	for _, m := range []*cuda.DeviceMemory{b.target, b.control} {
		if m != nil {
			errs = append(errs, m.Free())
		}
	}
	if b.back != nil {
		errs = append(errs, b.back.Free())
	}
	if b.kernels != nil {
		errs = append(errs, b.kernels.Close())
	}
	return errors.Join(errs...)
}

// check gives all that is wrong with a job for this engine.
func (b *Bench) check(j *Job) error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("bench of I/O: "+format, args...))
		}
	}
	count, size := b.engine.Buffers()
	bad(j.Bytes >= 512 && bits.OnesCount(uint(j.Bytes)) == 1, "%d bytes a command: give a power of two from 512", j.Bytes)
	bad(j.Lanes >= 1 && j.Lanes <= 32, "%d commands a warp: give 1 to 32", j.Lanes)
	bad(j.Warps >= 1, "%d warps: give at least 1", j.Warps)
	bad(j.PerBlock >= 1 && j.PerBlock <= 32, "%d warps a block: give 1 to 32", j.PerBlock)
	bad(j.ReadShare >= 0 && j.ReadShare <= 1, "read share %g: give 0 to 1", j.ReadShare)
	bad(uint64(j.Warps)*uint64(j.Lanes)*uint64(j.Bytes) <= uint64(count)*uint64(size),
		"%d warps of %d commands of %d bytes need more payload than %d buffers of %d bytes", j.Warps, j.Lanes, j.Bytes, count, size)
	bad(j.Bytes <= size, "%d bytes a command do not fit into a payload buffer of %d", j.Bytes, size)
	for _, d := range b.engine.Drives() {
		bad(j.Bytes%d.BlockSize == 0, "%s: %d bytes are not whole blocks of %d", d.Name, j.Bytes, d.BlockSize)
		bad(d.MaxBytes == 0 || j.Bytes <= d.MaxBytes, "%s: %d bytes are more than a command may move (%d)", d.Name, j.Bytes, d.MaxBytes)
		bad(j.Area <= d.Blocks*uint64(d.BlockSize), "%s: an area of %d bytes is larger than the drive", d.Name, j.Area)
		bad(d.BlockSize == b.engine.Drives()[0].BlockSize, "%s: its blocks have another size than the first drive's", d.Name)
	}
	return errors.Join(errs...)
}

// Run runs a job. A *bamio.StallError or *bamio.DriveError comes from the
// engine's watchdog; errors of single commands are in the result.
func (b *Bench) Run(ctx context.Context, j Job) (*Result, error) {
	if j.PerBlock == 0 {
		j.PerBlock = 8
	}
	if j.Lanes == 0 {
		j.Lanes = 32
	}
	if err := b.check(&j); err != nil {
		return nil, err
	}
	l := b.load(&j)
	if err := b.reset(); err != nil {
		return nil, err
	}
	cfg := cuda.LaunchConfig{Grid: cuda.D1(uint32((j.Warps + j.PerBlock - 1) / j.PerBlock)), Block: cuda.D1(uint32(32 * j.PerBlock))}
	if err := b.kernels.RunLoad(b.stream, cfg, b.engine.Ptr(), l); err != nil {
		return nil, err
	}
	if err := b.stream.CopyToHost(b.back.Bytes(), b.control.Ptr()); err != nil {
		return nil, err
	}
	done, err := b.engine.Context().NewEvent(false)
	if err != nil {
		return nil, err
	}
	err = done.Record(b.stream)
	if err == nil {
		err = b.engine.Watch(ctx, done)
	}
	if err := errors.Join(err, done.Close()); err != nil {
		return nil, fmt.Errorf("bench of I/O: %w", err)
	}
	return b.result(&j), nil
}

// load is the kernel's parameter.
func (b *Bench) load(j *Job) *load {
	d := b.engine.Drives()[0]
	span := uint64(j.Bytes / d.BlockSize)
	blocks := j.Area / uint64(d.BlockSize)
	for _, d := range b.engine.Drives() {
		if blocks == 0 || d.Blocks < blocks {
			blocks = d.Blocks // the smallest drive's, so that all are loaded alike
		}
	}
	perTurn := uint64(j.Warps) * uint64(j.Lanes)
	l := &load{
		Target: uint64(b.target.Ptr()), Results: uint64(b.control.Ptr()), SMs: uint64(b.control.Ptr().Add(resultsBytes + 4*buckets)),
		Blocks: blocks / span * span, Turns: max(1, (j.Commands+perTurn-1)/perTurn), Seed: j.Seed, Data: j.Data,
		Warps: uint32(j.Warps), Span: uint32(span), ReadShare: uint32(math.Round(256 * j.ReadShare)), Pattern: uint32(j.Pattern), Lanes: uint32(j.Lanes),
	}
	if j.Latency {
		l.Histogram = uint64(b.control.Ptr().Add(resultsBytes))
	}
	if !j.NoPayload {
		l.Pull = 1
	}
	return l
}

// begunOffset is Results.begun, a minimum, which starts from the top.
const begunOffset = 48

func (b *Bench) reset() error {
	if err := b.stream.Memset8(b.control.Ptr(), 0, controlBytes); err != nil {
		return err
	}
	return b.stream.Memset8(b.control.Ptr().Add(begunOffset), 0xff, 8)
}

func (b *Bench) result(j *Job) *Result {
	mem := b.back.Bytes()
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(mem[8*i:]) }
	r := &Result{
		Reads: word(0), Writes: word(1), Errors: word(2), BadPieces: word(3), Threads: j.Warps * 32,
		Elapsed: time.Duration(word(7) - word(6)),
	}
	if s := word(4); s != 0 {
		r.FirstStatus = bamio.Status(s - 1)
	}
	if s := word(5); s != 0 {
		r.BadBlock = s - 1
	}
	r.OtherErrors = r.Errors
	for i := range statuses {
		s, n := word(8+2*i), word(9+2*i)
		if s == 0 {
			break
		}
		if r.Statuses == nil {
			r.Statuses = map[bamio.Status]uint64{}
		}
		r.Statuses[bamio.Status(s-1)] = n
		r.OtherErrors -= n
	}
	if j.Latency {
		r.Latencies = make([]uint64, buckets)
		for i := range r.Latencies {
			r.Latencies[i] = uint64(binary.LittleEndian.Uint32(mem[resultsBytes+4*i:]))
		}
	}
	for i := range maxSms {
		if mem[resultsBytes+4*buckets+4*i] != 0 {
			r.SMs++
		}
	}
	return r
}

// Fill writes the contents that later reads expect over the area of every
// drive, by GPU threads, with commands of bytes.
func (b *Bench) Fill(ctx context.Context, bytes, warps int, area, data uint64) error {
	drives := len(b.engine.Drives())
	j := Job{Bytes: bytes, Pattern: Sequential, Area: area, Data: data, Lanes: 32, PerBlock: 8}
	j.Warps = max(1, warps/drives) * drives // as many for each drive
	l := b.load(&j)
	j.Commands = l.Blocks / uint64(l.Span) * uint64(drives)
	r, err := b.Run(ctx, j)
	if err == nil && r.Errors > 0 {
		err = fmt.Errorf("bench of I/O: fill: %d of %d writes failed, the first with %v", r.Errors, r.Errors+r.Writes, r.FirstStatus)
	}
	return err
}
