package bamio

import (
	"errors"
	"fmt"
	"os"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
)

const (
	sqeBytes = 64
	cqeBytes = 16
	// doorbellsAt is where the doorbells begin in BAR0.
	doorbellsAt = 0x1000
)

// port is a controller as the engine uses it: several drives may be namespaces
// of one.
type port struct {
	name string // of its first drive
	ctrl *libnvm.Controller
	soft bool // served by CPU threads of this process

	doorbells *cuda.Registration
	base      int // offset in BAR0 where the registration begins

	buffers dmaMemory      // the payload in the controller's address space
	lists   *libnvm.Memory // PRP lists, as long as all of the payload's
	held    error          // why the controller may still use memory
}

// member is a drive of the engine.
type member struct {
	name         string
	port         *port
	ns           *libnvm.Namespace
	first, count int // its queues
}

// queue is a queue pair that the GPU owns.
type queue struct {
	pair   *libnvm.QueuePair
	at     libnvm.Layout
	drive  int
	sq, cq *cuda.Registration
}

// findDrives finds the drives' namespaces and controllers.
func (e *Engine) findDrives() error {
	ports := map[*libnvm.Controller]*port{}
	for i, d := range e.opts.Drives {
		if d.Name == "" {
			d.Name = fmt.Sprintf("drive %d", i)
		}
		if d.Namespace == nil {
			all, err := d.Controller.Namespaces()
			if err == nil && len(all) == 0 {
				err = errors.New("it has no namespace that can be used")
			}
			if err != nil {
				return &SetupError{"find the namespace", d.Name, "", err}
			}
			d.Namespace = all[0]
		}
		p := ports[d.Controller]
		if p == nil {
			p = &port{name: d.Name, ctrl: d.Controller, soft: d.Controller.Transport().Name() == softName}
			ports[d.Controller] = p
			e.ports = append(e.ports, p)
		}
		e.drives = append(e.drives, &member{name: d.Name, port: p, ns: d.Namespace})
	}
	return nil
}

const softName = "soft"

// createQueues makes every drive's share of the queue pairs. With the default
// number a controller that grants fewer is no error.
func (e *Engine) createQueues() error {
	total := e.opts.Queues
	if total == 0 {
		total = max(defaultQueues, len(e.drives))
	}
	depth := e.opts.Depth
	if depth == 0 {
		depth = defaultDepth
		for _, p := range e.ports {
			depth = min(depth, p.ctrl.MaxDepth())
		}
	}
	e.depth = depth
	for i, m := range e.drives {
		share := total / len(e.drives)
		if i < total%len(e.drives) {
			share++
		}
		m.first = len(e.queues)
		for range share {
			pair, err := m.port.ctrl.CreateQueuePair(libnvm.QueueConfig{Depth: depth})
			var full *libnvm.UnsupportedError
			if errors.As(err, &full) && e.opts.Queues == 0 && m.count > 0 {
				break // all that the controller grants
			}
			if err != nil {
				return &SetupError{"create a queue pair", m.name, "ask for fewer queues or a smaller depth, or close what else uses the controller", err}
			}
			e.queues = append(e.queues, &queue{pair: pair, at: pair.Layout(), drive: i})
			m.count++
		}
	}
	return nil
}

// registerQueues makes rings and doorbells addressable for the GPU.
func (e *Engine) registerQueues() error {
	for _, p := range e.ports {
		if err := e.registerDoorbells(p); err != nil {
			return err
		}
	}
	for _, q := range e.queues {
		var err error
		on := fmt.Sprintf("queue %d of %s", q.at.ID, e.drives[q.drive].name)
		if q.sq, err = e.gpu.RegisterHost(view(q.at.SQ, wholePages(q.at.Depth*sqeBytes)), cuda.Portable|cuda.Mapped); err != nil {
			return &SetupError{"register the submission queue", on, registerRemedy, err}
		}
		if q.cq, err = e.gpu.RegisterHost(view(q.at.CQ, wholePages(q.at.Depth*cqeBytes)), cuda.Portable|cuda.Mapped); err != nil {
			return &SetupError{"register the completion queue", on, registerRemedy, err}
		}
	}
	return nil
}

const registerRemedy = "the GPU must be able to map this host memory: raise the limit of locked memory, or use fewer queues"

// wholePages rounds up to pages, which transports allocate in.
func wholePages(n int) int { return (n + page - 1) / page * page }

// registerDoorbells maps the doorbells of all queues of a controller.
func (e *Engine) registerDoorbells(p *port) error {
	end := 0
	var some *queue
	for _, q := range e.queues {
		if e.drives[q.drive].port == p {
			some = q
			end = max(end, q.at.SQDoorbellOffset+4, q.at.CQDoorbellOffset+4)
		}
	}
	if some == nil {
		return nil
	}
	var err error
	p.doorbells, p.base, err = mapDoorbells(e.gpu, p, some.at, end)
	if err != nil {
		return &SetupError{"map the doorbells", p.name, doorbellRemedy(p, err), err}
	}
	return nil
}

// mapDoorbells registers the pages of BAR0 from the first doorbell up to end. A
// drive's registers are I/O memory, of which the driver maps the bus address.
func mapDoorbells(gpu *cuda.Context, p *port, some libnvm.Layout, end int) (*cuda.Registration, int, error) {
	size := os.Getpagesize()
	base := doorbellsAt / size * size
	end = min((end+size-1)/size*size, p.ctrl.Transport().Registers().Len())
	flags := cuda.Portable | cuda.Mapped
	if !p.soft {
		flags |= cuda.IOMemory
	}
	bar := before(some.SQDoorbell.Pointer(), some.SQDoorbellOffset-base)
	r, err := gpu.RegisterHost(view(bar, end-base), flags)
	return r, base, err
}

func doorbellRemedy(p *port, err error) string {
	switch {
	case errors.Is(err, cuda.HostMemoryAlreadyRegistered):
		return "another engine uses this controller: close it first"
	case p.soft:
		return registerRemedy
	}
	return "the GPU cannot write this drive's registers, so that it cannot submit I/O by itself: let the CPU do the I/O, or see tritier doctor"
}

// doorbell is the GPU's address of the register at an offset of BAR0.
func (p *port) doorbell(offset int) uint64 {
	return uint64(p.doorbells.DevicePtr()) + uint64(offset-p.base)
}

// unregisterQueues takes the GPU's access to rings and doorbells away, which must
// come before libnvm gives their memory back.
func (e *Engine) unregisterQueues() error {
	var errs []error
	for _, q := range e.queues {
		errs = append(errs, unregister(&q.sq), unregister(&q.cq))
	}
	for _, p := range e.ports {
		errs = append(errs, unregister(&p.doorbells))
	}
	return errors.Join(errs...)
}

func unregister(r **cuda.Registration) error {
	if *r == nil {
		return nil
	}
	err := (*r).Unregister()
	*r = nil
	return err
}

// deleteQueues gives the queue pairs back. libnvm, which has polled none of it,
// takes what lies in the completion queue for new up to where the GPU is (or
// nothing, in odd laps), and rings the head doorbell with the GPU's position:
// never backward. A queue that the controller does not give up belongs to
// Controller.Close from here on.
func (e *Engine) deleteQueues() {
	for _, q := range e.queues {
		p := e.drives[q.drive].port
		if q.pair == nil {
			continue
		}
		if p.held == nil && p.ctrl.State() == libnvm.StateReady {
			p.held = q.pair.Close()
		} else if p.held == nil {
			p.held = fmt.Errorf("the controller is %s: %w", p.ctrl.State(), libnvm.ErrClosed)
		}
		q.pair = nil
	}
}
