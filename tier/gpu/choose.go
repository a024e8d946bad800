package gpu

import (
	"fmt"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/tier/layout"
)

// Who copies pages between T1 and the memory of T2: Options.Moves.
const (
	MovesAuto       = "auto"        // by direction as ChooseMoves finds; also ""
	MovesKernel     = "kernel"      // the warps that need them, zero-copy
	MovesCopyEngine = "copy-engine" // the GPU's copy engines, which the CPU starts on request
)

// MoveChoice is who copies pages one way, and why.
type MoveChoice struct {
	CopyEngine bool // on request by the CPU; else kernels
	Why        string
}

// String is the choice in one line, without the direction.
func (c MoveChoice) String() string {
	if c.CopyEngine {
		return "copy engine, on request: " + c.Why
	}
	return "kernels: " + c.Why
}

// Curves are the times that a calibration has: those of a *copyeng.GPU opened with
// NoLaunch, which chooses among the paths that an attendant may use.
type Curves interface {
	Choose(dir copyeng.Direction, page, n int) copyeng.Choice
	Predict(p copyeng.Path, dir copyeng.Direction, page, n int) (time.Duration, bool)
}

const (
	// warpRate is what one warp copies zero-copy, in bytes a second, whatever its
	// neighbours do: 27 us for 64 KiB on an H200, measured with a page fault around it.
	// A warp has 4 KiB in flight, and a load over PCIe takes above 1 us.
	warpRate = 65536 / 27e-6
	// ringTrip is what a batch of requests costs beside its copies: the GPU's write and
	// its look at the answer, each over PCIe, the CPU's look at the ring, and two changes
	// of goroutine. An estimate, no measurement.
	ringTrip = 20 * time.Microsecond
	// batchMost is how many requests bamio.Engine.Serve hands over at once.
	batchMost = 32
	// steadier is how much faster copy engines have to be: a warp's time does not depend
	// on how fast the CPU happens to be, as a request's does.
	steadier = 1.03
)

// ChooseMoves says who copies pages of so many bytes faster one way when so many
// warps wait for a page at once. The copy engines' time is that of batches of up to 32,
// one after another, by the calibration's curves, with a round trip of the ring for
// each. The warps' time is that of a zero-copy kernel by the same curves, less what a
// launch takes, but never less than one warp needs for its page. Copy engines win where
// pages are large and few warps move at once: one warp does not fill the link.
func ChooseMoves(c Curves, dir copyeng.Direction, page, inFlight int) MoveChoice {
	n := max(inFlight, 1)
	kernel, ok := warpsTime(c, dir, page, n)
	if !ok {
		return MoveChoice{Why: fmt.Sprintf("the curves do not say how long %d pages of %d bytes take %s by zero-copy", n, page, dir)}
	}
	var engine time.Duration
	batches, source := 0, ""
	for left := n; left > 0; left -= batchMost {
		one := c.Choose(dir, page, min(left, batchMost))
		if one.Time <= 0 {
			return MoveChoice{Why: "no curve of a copy engine: " + one.Source}
		}
		engine += one.Time + ringTrip
		batches, source = batches+1, one.Source
	}
	why := fmt.Sprintf("%d pages of %d bytes at once take warps %v and the copy engine %v, %d round trips of %v included (%s)",
		n, page, micros(kernel), micros(engine), batches, ringTrip, source)
	return MoveChoice{CopyEngine: float64(engine)*steadier < float64(kernel), Why: why}
}

// warpsTime is how long n warps take that copy a page each.
func warpsTime(c Curves, dir copyeng.Direction, page, n int) (time.Duration, bool) {
	together, ok := c.Predict(copyeng.PathZeroCopy, dir, page, n)
	launch, ok2 := c.Predict(copyeng.PathZeroCopy, dir, copyeng.MinPage, 1)
	alone := time.Duration(float64(page) / warpRate * 1e9)
	return max(alone, together-launch), ok && ok2
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f us", float64(d)/1e3) }

// inFlight is how many moves one way are to be expected at once: each needs a warp, a
// frame and a spare slot. Kernels of users may have other numbers of warps than batches.
func (o *Options) inFlight() int { return min(o.Warps, o.Frames, o.Spares) }

// chooseMoves decides by direction, and opens the copy engine if one needs it.
func (e *Engine) chooseMoves() error {
	o := &e.o
	if o.Moves == MovesKernel {
		for d := range e.moves {
			e.moves[d] = MoveChoice{Why: "asked for"}
		}
		return nil
	}
	eng, err := copyeng.OpenGPU(o.GPU, copyeng.GPUOptions{Calibration: o.Calibration, NoLaunch: true})
	if err != nil {
		return fmt.Errorf("moves: %w", err)
	}
	for d := range e.moves {
		e.moves[d] = MoveChoice{CopyEngine: true, Why: "asked for"}
		if o.Moves != MovesCopyEngine {
			e.moves[d] = ChooseMoves(eng, copyeng.Direction(d), o.PageSize, o.inFlight())
		}
	}
	if !e.moves[0].CopyEngine && !e.moves[1].CopyEngine {
		return eng.Close()
	}
	e.attend = &attendant{copy: eng, page: o.PageSize, limit: o.Deadline / 2, turn: make(chan struct{}, 1)}
	return nil
}

// Moves says who copies pages to the device (layout.ToDevice) and to the host, and why.
func (e *Engine) Moves() [2]MoveChoice { return e.moves }

// moveRing is the length of the ring of requests for moves, and movePatience how long a
// warp waits at most for the CPU to begin one: then it copies itself. Tests change them.
var (
	moveRing     = 1024
	movePatience = 20 * time.Millisecond
)

// describeMoves makes kernels' block of how pages move, once the attendant serves.
func (e *Engine) describeMoves() error {
	e.mover = layout.Mover{BamIO: uint64(e.io.Ptr()), PatienceNS: uint64(min(movePatience, e.o.Deadline/4)), Over: e.sharedPtr(moverAt)}
	if e.attend != nil {
		if err := e.startAttendant(); err != nil {
			return err
		}
	}
	for d := range e.moves {
		if e.moves[d].CopyEngine {
			e.mover.ByRequest[d] = 1
		}
	}
	b := encode(e.mover)
	return e.table(&e.dev.Mover, uint64(len(b)), b)
}

// startAttendant starts it, or leaves moves to kernels where it was not asked for.
func (e *Engine) startAttendant() error {
	err := e.attend.start(e)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("moves by the copy engine: %w", err)
	if e.o.Moves == MovesCopyEngine {
		return err
	}
	for d := range e.moves {
		e.moves[d] = MoveChoice{Why: err.Error()}
	}
	a := e.attend
	e.attend = nil
	return a.close()
}

// moveSlack is room for pages that come back to a T2 that is full, since their moves to T1
// were lost.
const moveSlack = 64
