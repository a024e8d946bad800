package pinned

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var page = uint64(os.Getpagesize())

func TestOpenSizes(t *testing.T) {
	for _, size := range []uint64{1, page, page + 1, ChunkAlign - 1, ChunkAlign, ChunkAlign + 1, 5*ChunkAlign + 3*page, pieceBytes + 1, 3*pieceBytes + page} {
		for _, registered := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, registered %v", size, registered), func(t *testing.T) {
				cfg, l, d := small(size)
				if !registered {
					cfg.Register = nil
				}
				p, err := Open(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				want := (size + page - 1) / page * page
				chunks := int((want + ChunkAlign - 1) / ChunkAlign)
				checkPool(t, p, want, registered)
				if l.touched != want {
					t.Errorf("touched %d bytes of %d", l.touched, want)
				}
				if registered && (d.calls != chunks || sum(d.live) != int(want)) {
					t.Errorf("%d chunks, %d bytes registered, want %d, %d", d.calls, sum(d.live), chunks, want)
				}
				if err := p.Close(); err != nil || len(d.live) != 0 {
					t.Errorf("Close: %v, %d chunks registered", err, len(d.live))
				}
				l.settle(t, 0)
			})
		}
	}
}

func sum(m map[uint64]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func checkPool(t *testing.T, p *Pool, want uint64, registered bool) {
	t.Helper()
	mem := p.Bytes()
	if p.Size() != want || uint64(len(mem)) != want || uint64(cap(mem)) != want || address(mem)%ChunkAlign != 0 || p.Registered() != registered || !p.Contiguous() {
		t.Fatalf("size %d, %d bytes at %x, registered %v, contiguous %v", p.Size(), len(mem), address(mem), p.Registered(), p.Contiguous())
	}
	for _, off := range []uint64{0, want / 2, want - 1} {
		end := want
		if registered {
			end = min(want, off/ChunkAlign*ChunkAlign+ChunkAlign)
		}
		if d, err := p.DeviceAddr(off); err != nil || d != address(mem)+off || mem[off] != 0 || p.ChunkEnd(off) != end {
			t.Errorf("offset %d: device %x, %v, byte %d, chunk ends at %d", off, d, err, mem[off], p.ChunkEnd(off))
		}
		mem[off] = 1
	}
	var out *RangeError
	if _, err := p.DeviceAddr(want); !errors.As(err, &out) || p.ChunkEnd(want) != want {
		t.Errorf("beyond the end: %v", err)
	}
}

// Platforms without unified addressing give each chunk an address of its own.
func TestDeviceAddressesNotContiguous(t *testing.T) {
	cfg, _, d := small(3 * ChunkAlign)
	byHost := make(map[uint64]uint64)
	cfg.Register = func(mem []byte) (uint64, func() error, error) {
		_, undo, err := d.register(mem)
		byHost[address(mem)] = 1<<40 - uint64(len(byHost))<<30
		return byHost[address(mem)], undo, err
	}
	p := mustOpen(t, cfg)
	if p.Contiguous() {
		t.Error("contiguous")
	}
	for _, off := range []uint64{0, 5, ChunkAlign, 3*ChunkAlign - 1} {
		want := byHost[address(p.Bytes())+off/ChunkAlign*ChunkAlign] + off%ChunkAlign
		if got, err := p.DeviceAddr(off); err != nil || got != want {
			t.Errorf("offset %d: %x, %v, want %x", off, got, err, want)
		}
	}
}

// A registration that fails at any call undoes those before it, last first, and leaves nothing mapped.
func TestRegisterFails(t *testing.T) {
	const chunks = 6
	for k := range chunks {
		cfg, l, d := small((chunks-1)*ChunkAlign + 3*page)
		cfg.Workers, d.failAt, d.err = 1, k, errDriver
		p, err := Open(t.Context(), cfg)
		var failed *RegisterError
		if p != nil || !errors.As(err, &failed) || !errors.Is(err, errDriver) || failed.Likely != nil || failed.Offset != uint64(failed.Chunk)*ChunkAlign {
			t.Fatalf("call %d: %v, %v", k, p, err)
		}
		var want []int
		for i := k - 1; i >= 0; i-- {
			want = append(want, i)
		}
		if len(d.live) != 0 || !slices.Equal(d.order, want) {
			t.Errorf("call %d: %d chunks stay registered, undone %v", k, len(d.live), d.order)
		}
		l.settle(t, 0)
	}
}

// A driver's "out of memory" is explained by the right to pin, if that is what is lacking.
func TestRegisterOutOfMemory(t *testing.T) {
	memlock := []string{"proc/self/limits", "Max locked memory  65536  65536 bytes\n"}
	exempt := append(slices.Clone(memlock), "proc/self/status", "CapEff: 0000000000004000\nMems_allowed_list: 0-1\n")
	for name, c := range map[string]struct {
		files []string
		err   error
		want  string
	}{
		"memlock":               {memlock, syscall.ENOMEM, LimitMemlock},
		"memlock, wrapped":      {memlock, fmt.Errorf("call: %w", syscall.ENOMEM), LimitMemlock},
		"memlock but exempt":    {exempt, syscall.ENOMEM, ""},
		"no limit":              {nil, syscall.ENOMEM, ""},
		"memlock is not at it":  {memlock, errDriver, ""},
		"named by the caller":   {memlock, os.ErrInvalid, LimitMemlock},
		"not named by the call": {memlock, os.ErrExist, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, l, d := small(2 * ChunkAlign)
			cfg.Root, d.failAt, d.err = plenty().with(c.files...).fs(), 1, c.err
			if c.err == os.ErrInvalid || c.err == os.ErrExist {
				cfg.OutOfMemory = func(err error) bool { return err == os.ErrInvalid }
			}
			_, err := Open(t.Context(), cfg)
			var limit *LimitError
			if errors.As(err, &limit) != (c.want != "") || limit != nil && (limit.Limit != c.want || !strings.Contains(err.Error(), c.want)) || !errors.Is(err, c.err) {
				t.Errorf("%v", err)
			}
			l.settle(t, 0)
		})
	}
}

// A chunk that the driver does not let go keeps its addresses and loses its memory; all others are unmapped.
func TestUnregisterFails(t *testing.T) {
	cfg, l, d := small(4*ChunkAlign + page)
	cfg.Workers, d.stuck = 1, map[int]error{1: errDriver, 3: os.ErrInvalid}
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Close()
	var stuck *UnregisterError
	if !errors.As(err, &stuck) || !errors.Is(err, errDriver) || !errors.Is(err, os.ErrInvalid) {
		t.Errorf("Close: %v", err)
	}
	if again := p.Close(); again == nil || again.Error() != err.Error() || len(d.order) != 5 {
		t.Errorf("second Close: %v, undone %v", again, d.order)
	}
	l.settle(t, 2*ChunkAlign)

	cfg, l, d = small(4 * ChunkAlign)
	cfg.Workers, d.stuck, d.failAt, d.err = 1, map[int]error{0: os.ErrInvalid}, 2, errDriver
	if _, err := Open(t.Context(), cfg); !errors.Is(err, errDriver) || !errors.Is(err, os.ErrInvalid) {
		t.Errorf("both errors must be there: %v", err)
	}
	l.settle(t, ChunkAlign)
}

func TestClosed(t *testing.T) {
	cfg, _, _ := small(2 * ChunkAlign)
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Alloc(10, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Alloc(1, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Alloc: %v", err)
	}
	if _, err := p.DeviceAddr(0); !errors.Is(err, ErrClosed) {
		t.Errorf("DeviceAddr: %v", err)
	}
	if err := s.Free(); !errors.Is(err, ErrClosed) {
		t.Errorf("Free: %v", err)
	}
	if p.Bytes() != nil || s.Bytes() != nil {
		t.Error("memory that is unmapped is still handed out")
	}
	if st := p.Stats(); st.Size != 2*ChunkAlign || st.HugeShare != -1 {
		t.Errorf("%+v", st)
	}
}

// A start that is cancelled, before, while touching or while registering, undoes everything and tells the caller's reason.
func TestCancel(t *testing.T) {
	reason := errors.New("changed my mind")
	for _, when := range []string{"before", "touching", "registering"} {
		t.Run(when, func(t *testing.T) {
			cfg, l, d := small(8*pieceBytes + page)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var pieces atomic.Int64
			switch when {
			case "before":
				cancel(reason)
			case "touching":
				l.populating = func() error {
					if pieces.Add(1) == 3 {
						cancel(reason)
					}
					return nil
				}
			case "registering":
				d.observed = func(call int) {
					if call == 2 {
						cancel(reason)
					}
				}
			}
			if p, err := Open(ctx, cfg); p != nil || !errors.Is(err, reason) {
				t.Errorf("%v, %v", p, err)
			}
			if len(d.live) != 0 || when == "touching" && pieces.Load() > 5 || when == "registering" && d.calls != 3 {
				t.Errorf("%d chunks stay registered, %d pieces were touched, %d chunks registered", len(d.live), pieces.Load(), d.calls)
			}
			if when != "before" {
				l.settle(t, 0)
			}
		})
	}
}

// Whatever the order in which workers end, a chunk reaches the driver when all of it is touched, and each one once.
func TestRegisterFollowsTouch(t *testing.T) {
	for _, chunk := range []uint64{6 * mib, pieceBytes, 40 * mib} {
		cfg, l, d := small(9*pieceBytes + page)
		cfg.ChunkBytes, cfg.Workers, l.hollow = chunk, 4, true
		l.populating = func() error {
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) // the order is the machine's anyway: no seed would repeat it
			return nil
		}
		cfg.Register = func(mem []byte) (uint64, func() error, error) {
			if n := l.populatedIn(mem); n != len(mem) {
				t.Errorf("chunks of %d: registered with %d bytes of %d touched", chunk, n, len(mem))
			}
			return d.register(mem)
		}
		p := mustOpen(t, cfg)
		if sum(d.live) != int(p.Size()) {
			t.Errorf("chunks of %d: %d bytes registered of %d", chunk, sum(d.live), p.Size())
		}
	}
}

// Progress rises to the whole, one call at a time, also when many workers report.
func TestProgress(t *testing.T) {
	for _, registered := range []bool{true, false} {
		cfg, l, _ := small(20*pieceBytes + 5*page)
		l.hollow, cfg.Workers = true, 8
		if !registered {
			cfg.Register = nil
		}
		var last, calls uint64
		var inside atomic.Int64
		cfg.Progress = func(done, total uint64) {
			if inside.Add(1) != 1 || total != 20*pieceBytes+5*page || done <= last || done > total {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last, calls = done, calls+1
			inside.Add(-1)
		}
		p := mustOpen(t, cfg)
		if last != p.Size() || calls < 2 {
			t.Errorf("the last of %d reports was %d of %d", calls, last, p.Size())
		}
	}
}

func TestConfigViolations(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want int
	}{
		"nothing set":    {Config{}, 1},
		"all wrong":      {Config{Size: 1 << 63, Node: -2, ChunkBytes: 4096, Workers: -1, HugePages: 9}, 5},
		"strict nowhere": {Config{Size: 1, Node: AnyNode, Strict: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), c.cfg)
			joined, ok := err.(interface{ Unwrap() []error })
			if !ok || len(joined.Unwrap()) != c.want {
				t.Errorf("want %d violations: %v", c.want, err)
			}
		})
	}
}
