package tune

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tritier/tritier/sim"
)

// Evaluator runs tasks. It may run them anywhere and in any order.
type Evaluator interface {
	// Evaluate runs tasks and hands each outcome, under its task's index, to
	// done as soon as it is known; done is not called by two goroutines at a
	// time, nor after Evaluate has returned. When ctx ends, outcomes known by
	// then have been handed on, and the error is ctx's.
	Evaluate(ctx context.Context, tasks []Task, done func(i int, o Outcome)) error
}

// Local evaluates on this machine's cores. Use NewLocal. It keeps the
// miniatures that the last call of Evaluate needed. It is not safe for
// concurrent use.
type Local struct {
	traces  map[string]*sim.Trace
	workers int

	mu         sync.Mutex
	miniatures map[string]*shared
}

// shared is a miniature that several goroutines may want at once.
type shared struct {
	once sync.Once
	m    *miniature
	err  error
}

// NewLocal makes an evaluator for traces by HashTrace, with so many workers;
// 0: one for each core.
func NewLocal(traces map[string]*sim.Trace, workers int) *Local {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return &Local{traces: traces, workers: workers, miniatures: map[string]*shared{}}
}

// Evaluate runs tasks on all workers.
func (l *Local) Evaluate(ctx context.Context, tasks []Task, done func(i int, o Outcome)) error {
	l.forget(tasks)
	var mu sync.Mutex
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(l.workers)
	for i := range tasks {
		if inner.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := inner.Err(); err != nil {
				return err
			}
			o, err := l.one(inner, &tasks[i])
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done(i, o)
			return nil
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (l *Local) one(ctx context.Context, task *Task) (Outcome, error) {
	m, err := l.miniature(task)
	if err != nil {
		return Outcome{}, err
	}
	return m.evaluate(ctx, task)
}

// miniature makes the task's miniature, or waits for whoever makes it.
func (l *Local) miniature(task *Task) (*miniature, error) {
	t := l.traces[task.Trace]
	if t == nil {
		return nil, fmt.Errorf("tune: a task names trace %s, which is not here", task.Trace)
	}
	if task.Rate >= 1 {
		return newMiniature(t, task) // costs nothing
	}
	l.mu.Lock()
	s := l.miniatures[task.miniature()]
	if s == nil {
		s = new(shared)
		l.miniatures[task.miniature()] = s
	}
	l.mu.Unlock()
	s.once.Do(func() { s.m, s.err = newMiniature(t, task) })
	return s.m, s.err
}

// forget drops the miniatures that tasks do not need: of a large trace they
// are large, too.
func (l *Local) forget(tasks []Task) {
	needed := map[string]bool{}
	for i := range tasks {
		needed[tasks[i].miniature()] = true
	}
	maps.DeleteFunc(l.miniatures, func(key string, _ *shared) bool { return !needed[key] })
}

// miniature names the task's miniature.
func (t *Task) miniature() string { return fmt.Sprint(t.Trace, t.Cuts, t.Rate, t.SampleSeed) }
