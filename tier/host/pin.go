package host

import (
	"context"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// Pin brings pages into T1 and keeps them there until Unpin, as often as it was
// called for each. It returns the frame of every page. On an error nothing is
// pinned; a *PinError says how large T1 would have to be.
func (m *Memory) Pin(ctx context.Context, pages []placement.Page) ([]int32, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Leave()
	if err := m.usable(); err != nil {
		return nil, err
	}
	b := &Batch{Op: tier.Prefetch, Spans: make([]Span, len(pages))}
	for i, p := range pages {
		b.Spans[i] = Span{Page: p}
	}
	if err := m.checkBatch(b); err != nil {
		return nil, err
	}
	if err := m.fits(pages); err != nil {
		return nil, err
	}
	// Marked first: a page that has come in must not leave for the next one.
	for _, p := range pages {
		m.pins[p]++
	}
	if err := m.run(ctx, &batch{Batch: b}); err != nil {
		m.unpin(pages)
		return nil, err
	}
	frames := make([]int32, len(pages))
	for i, p := range pages {
		frames[i] = m.plan.Frame(p)
	}
	return frames, nil
}

// fits refuses pins that would leave no frame for anything else.
func (m *Memory) fits(pages []placement.Page) error {
	more := map[placement.Page]bool{}
	for _, p := range pages {
		if m.pins[p] == 0 {
			more[p] = true
		}
	}
	if m.held()+len(more) >= m.o.T1 {
		return m.pinError(len(more) + 1)
	}
	return nil
}

// held is the number of pinned pages.
func (m *Memory) held() int { return len(m.pins) }

func (m *Memory) pinError(more int) error {
	return &PinError{Frames: m.o.T1, Pinned: m.held(), Needs: m.held() + more}
}

// Unpin takes back one Pin of each page.
func (m *Memory) Unpin(pages []placement.Page) {
	m.mu.Lock()
	defer m.mu.Leave()
	m.unpin(pages)
}

func (m *Memory) unpin(pages []placement.Page) {
	for _, p := range pages {
		if m.pins[p]--; m.pins[p] <= 0 {
			delete(m.pins, p)
		}
	}
}
