package cuda

import (
	"sync"
	"sync/atomic"
)

// pins remembers which goroutines run inside Context.Do, and which context is
// current on the thread that each is locked to, so that calls there need not
// set it again.
//
// A goroutine is known by the address of its descriptor: it stays the same,
// and nobody else's, for as long as the goroutine lives, and Do removes its
// entry before that ends.
type pins struct {
	active atomic.Int32 // entries in the table; 0 spares everybody else the look-up
	mu     sync.RWMutex // protects table, not the pins in it
	table  map[uintptr]*pin
}

// pin belongs to one goroutine: only that one reads and writes it.
type pin struct {
	current *Context // the context that is current on the thread
	depth   int      // nested Do
}

func (p *pins) init() { p.table = make(map[uintptr]*pin) }

// find is the calling goroutine's pin, or nil outside Do.
func (p *pins) find() *pin {
	if p.active.Load() == 0 {
		return nil
	}
	g := goroutine()
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.table[g]
}

// enter makes or deepens the calling goroutine's pin. It is nil where
// goroutines cannot be told apart.
func (p *pins) enter() *pin {
	if e := p.find(); e != nil {
		e.depth++
		return e
	}
	g := goroutine()
	if g == 0 {
		return nil
	}
	e := &pin{depth: 1}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table[g] = e
	p.active.Add(1)
	return e
}

// leave undoes enter.
func (p *pins) leave(e *pin) {
	if e == nil {
		return
	}
	if e.depth--; e.depth > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.table, goroutine())
	p.active.Add(-1)
}
