package tritier

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/copyeng/pieces"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier/host"
)

// openDriver is cuda.Open; tests put a software GPU in its place.
var openDriver = cuda.Open

// openTiers allocates T1 and T2 where the configuration wants them, and says why
// T1 is there.
func openTiers(p *parsed, frames, slots int) (*tiers, string, error) {
	if p.GPU == "none" {
		return memoryTiers(p, frames, slots, "the configuration wants no GPU")
	}
	ctx, err := openGPU(p.Driver, p.GPU)
	if err != nil && p.GPU == "auto" {
		return memoryTiers(p, frames, slots, fmt.Sprintf("no GPU can be used: %v", err))
	}
	if err != nil {
		return nil, "", fmt.Errorf("gpu %s: %w", p.GPU, err)
	}
	t, err := gpuTiers(p, ctx, frames, slots)
	if err != nil {
		return nil, "", fmt.Errorf("gpu %s: %w", ctx.Device().Name(), errors.Join(err, ctx.Close()))
	}
	t.last = ctx.Close
	return t, "", nil
}

func memoryTiers(p *parsed, frames, slots int, why string) (*tiers, string, error) {
	t, err := newTiers(copyeng.OpenHost(copyeng.HostOptions{}), frames, slots, int(p.PageSize), p.Timeout)
	if err != nil {
		return nil, "", err
	}
	t.elements = inMemory{t.t1.Bytes(), int(p.PageSize)}
	return t, why, nil
}

// openGPU opens a GPU of the driver, or of the machine's without one.
func openGPU(d *cuda.Driver, name string) (*cuda.Context, error) {
	if d == nil {
		var err error
		if d, err = openDriver(); err != nil {
			return nil, err
		}
	}
	if name == "auto" {
		name = "0"
	}
	dev, err := d.Device(name)
	if err != nil {
		return nil, err
	}
	return dev.Retain()
}

func gpuTiers(p *parsed, ctx *cuda.Context, frames, slots int) (*tiers, error) {
	eng, err := copyeng.OpenGPU(ctx, copyeng.GPUOptions{})
	if err != nil {
		return nil, err
	}
	t, err := newTiers(eng, frames, slots, int(p.PageSize), p.Timeout)
	if err != nil {
		return nil, err
	}
	m, err := pieces.New(ctx, cuda.Ptr(t.t1.Address()), t.t1.Size(), p.Timeout)
	if err != nil {
		return nil, joinClose(err, t.Close)
	}
	t.elements = &onGPU{ctx: ctx, m: m, page: int(p.PageSize)}
	return t, nil
}

// onGPU moves elements when T1 is GPU memory.
type onGPU struct {
	ctx  *cuda.Context
	m    *pieces.Mover
	page int
	list []pieces.Piece // reused: calls come one at a time
}

func (g *onGPU) pieces(list []host.Piece) []pieces.Piece {
	g.list = g.list[:0]
	for _, p := range list {
		g.list = append(g.list, pieces.Piece{Frame: uint64(p.Frame)*uint64(g.page) + uint64(p.Offset), Buffer: p.At, Bytes: int(p.Length)})
	}
	return g.list
}

// Accepts ordinary memory, and memory of this GPU from end to end.
func (g *onGPU) Accepts(b host.Buffer) error {
	if b.Bytes != nil {
		return nil
	}
	if s, _ := b.Stream.(*cuda.Stream); s != nil && !s.Context().Same(g.ctx) {
		return errors.New("the stream is of another context than T1's memory")
	}
	info, err := g.ctx.PointerInfo(cuda.Ptr(b.Device))
	if err != nil {
		return fmt.Errorf("the buffer at %#x is no memory that the GPU reaches: %w", b.Device, err)
	}
	// A driver that does not say how large an allocation is leaves it to the caller.
	if end := uint64(info.Start) + info.Size; info.Size != 0 && (uint64(b.Size) > info.Size || b.Device > end-uint64(b.Size)) {
		return fmt.Errorf("the buffer of %d bytes at %#x leaves its memory, which ends at %#x", b.Size, b.Device, end)
	}
	return nil
}

// Load copies pieces of frames to dst.
func (g *onGPU) Load(dst host.Buffer, list []host.Piece) error {
	if dst.Bytes != nil {
		return g.m.Load(dst.Bytes, g.pieces(list))
	}
	s, _ := dst.Stream.(*cuda.Stream)
	return g.m.LoadDevice(cuda.Ptr(dst.Device), dst.Size, s, g.pieces(list))
}

// Store copies src to pieces of frames.
func (g *onGPU) Store(src host.Buffer, list []host.Piece) error {
	if src.Bytes != nil {
		return g.m.Store(src.Bytes, g.pieces(list))
	}
	s, _ := src.Stream.(*cuda.Stream)
	return g.m.StoreDevice(cuda.Ptr(src.Device), src.Size, s, g.pieces(list))
}

func (g *onGPU) close() error { return g.m.Close() }
