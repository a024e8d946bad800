package cudafake

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
)

// blockKind is what an allocation is.
type blockKind uint8

const (
	deviceBlock     blockKind = iota + 1 // cuMemAlloc
	globalBlock                          // a module's global
	pinnedBlock                          // cuMemHostAlloc
	registeredBlock                      // cuMemHostRegister
)

func (k blockKind) String() string {
	return [...]string{"", "device memory", "module global", "pinned memory", "registered memory"}[k]
}

func (k blockKind) device() bool { return k == deviceBlock || k == globalBlock }

// block is a live allocation. Its fields are protected by GPU.mu; its bytes
// are the user's.
type block struct {
	kind        blockKind
	base        uintptr
	size        uint64
	bytes       []byte // all of it; also keeps registered Go memory alive
	ctx         *context
	flags       uint32
	id          uint64
	first, last uintptr // the pages, in an arena
	file        int     // the memfd behind it, -1 without
	pins        int     // operations and kernels that use it now
	gone        bool    // being freed: nobody may pin it any more
}

func (b *block) String() string { return fmt.Sprintf("%s %#x, %d bytes", b.kind, b.base, b.size) }

func (b *block) end() uintptr { return b.base + uintptr(b.size) }

// hostIn says whether host memory counts as pinned in a context: what was
// allocated does in each, what was registered in its own unless it is portable.
func (b *block) hostIn(x *context) bool {
	return b.kind == pinnedBlock || b.ctx == x || b.flags&hostPortable != 0
}

// reaches says whether kernels of the context can touch b.
func (x *context) reaches(b *block) bool {
	if b.kind.device() {
		return b.ctx == x || x.peers[b.ctx.dev]
	}
	return b.hostIn(x)
}

// before and behind are the bytes of b's pages around it.
func (b *block) before() []byte { return view(b.first, uint64(b.base-b.first)) }
func (b *block) behind() []byte { return view(b.end(), uint64(b.last-b.end())) }

func (b *block) closeFile() {
	if b.file >= 0 {
		_ = unix.Close(b.file)
		b.file = -1
	}
}

// find is the live block that holds address a, or nil.
func (g *GPU) find(a uintptr) *block {
	b := g.registered.find(a)
	switch {
	case g.deviceArena.holds(a):
		b = g.deviceArena.find(a)
	case g.hostArena.holds(a):
		b = g.hostArena.find(a)
	}
	if b != nil && b.gone {
		return nil
	}
	return b
}

// owned says whether the address can only be the GPU's: there, memory that is
// in no block is none.
func (g *GPU) owned(a uintptr) bool {
	return a < lowest || g.deviceArena.holds(a) || g.hostArena.holds(a)
}

// allocate makes a block of n bytes for ctx.
func (g *GPU) allocate(ctx *context, kind blockKind, n uint64) (*block, cuda.Result) {
	a, used, limit := g.hostArena, &g.pinned, g.config.pinnedLimit
	if kind.device() {
		a, used, limit = g.deviceArena, &ctx.dev.used, ctx.dev.Memory
	}
	if n > limit || *used+charge(n) > limit {
		return nil, cuda.OutOfMemory
	}
	g.lastID++
	b := &block{kind: kind, ctx: ctx, id: g.lastID, file: -1}
	if err := a.place(b, n, kind.device() && g.config.dmaBuf); err != nil {
		g.note("%s of %d bytes: %v", kind, n, err)
		return nil, cuda.OutOfMemory
	}
	*used += charge(n)
	return b, cuda.Success
}

// charge is what an allocation of n bytes costs.
func charge(n uint64) uint64 { return (n + 511) &^ 511 }

// free takes b back once nobody uses it. It may wait, with g.mu released.
func (g *GPU) free(b *block) {
	b.gone = true
	for b.pins > 0 {
		g.idle.Wait()
	}
	if b.kind == registeredBlock {
		g.registered.remove(b)
		g.pinned -= charge(b.size)
		b.bytes = nil
		return
	}
	a := g.hostArena
	if b.kind.device() {
		a = g.deviceArena
		b.ctx.dev.used -= charge(b.size)
	} else {
		g.pinned -= charge(b.size)
	}
	intact, err := a.drop(b)
	if !intact {
		g.note("%s: bytes beside it were written", b)
	}
	if err != nil {
		g.note("%s: giving its pages back: %v", b, err)
	}
}

// unpin lets blocks go that were pinned, one count each.
func (g *GPU) unpin(blocks []*block) {
	for _, b := range blocks {
		b.pins--
	}
	g.idle.Broadcast()
}
