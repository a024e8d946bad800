package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tritier/tritier/tier/layout"
)

// Pin brings pages into T1 and keeps them there until Unpin. It returns the frame of
// every page; each is an access. On an error nothing is pinned, but after a
// *RunningError any of the pages can be: when T1 is too small, an *AccessError says in
// Needed what would do.
func (e *Engine) Pin(ctx context.Context, pages []uint64) ([]int32, error) {
	if err := e.mu.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.leave()
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	if len(pages) >= e.o.Frames {
		return nil, &AccessError{Failed: len(pages), Needed: len(pages) + 1, Pages: []*PageError{{pages[0], ErrAllPinned}}}
	}
	frames := make([]int32, len(pages))
	for i := range frames {
		frames[i] = -1
	}
	err := e.pins(ctx, pages, frames, false)
	if err == nil {
		for _, p := range pages {
			e.held[p]++
		}
		return frames, nil
	}
	var running *RunningError
	if errors.As(err, &running) {
		return nil, err
	}
	return nil, errors.Join(err, e.pins(context.WithoutCancel(ctx), pages, frames, true))
}

// Unpin takes back a Pin of pages, which gave frames.
func (e *Engine) Unpin(ctx context.Context, pages []uint64, frames []int32) error {
	if err := e.mu.enter(ctx); err != nil {
		return err
	}
	defer e.mu.leave()
	if err := e.ready(ctx); err != nil {
		return err
	}
	if len(frames) != len(pages) {
		return fmt.Errorf("%d pages in %d frames", len(pages), len(frames))
	}
	if err := e.pins(ctx, pages, frames, true); err != nil {
		return err
	}
	for _, p := range pages {
		if e.held[p]--; e.held[p] <= 0 {
			delete(e.held, p)
		}
	}
	return nil
}

// pins pins pages and sets their frames, or unpins those that have one.
func (e *Engine) pins(ctx context.Context, pages []uint64, frames []int32, unpin bool) error {
	const most = indexLength / 2 // the other half of the list holds the frames
	flag := uint32(0)
	if unpin {
		flag = 1
	}
	list, places := e.index.Bytes(), e.index.Bytes()[8*most:]
	for at := 0; at < len(pages); at += most {
		n := min(len(pages)-at, most)
		for i := range n {
			binary.LittleEndian.PutUint64(list[8*i:], pages[at+i])
			binary.LittleEndian.PutUint32(places[4*i:], frameWord(frames[at+i]))
		}
		err := e.call(ctx, nil, func() error {
			return e.k.PinPages(e.stream, e.shape(n), e.batch.Ptr(), e.index.DevicePtr(), uint64(n), e.index.DevicePtr().Add(8*most), flag, e.report())
		})
		for i := range n {
			if w := binary.LittleEndian.Uint32(places[4*i:]); !unpin && w != layout.None {
				frames[at+i] = int32(w)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func frameWord(f int32) uint32 {
	if f < 0 {
		return layout.None
	}
	return uint32(f)
}

// FrameMemory is the GPU's address of frame 0; frames follow each other.
func (e *Engine) FrameMemory() uint64 { return e.dev.FrameMemory }
