package bamio

import (
	"context"
	"errors"
	"time"

	"github.com/tritier/tritier/cuda"
)

// Close asks kernels to end, waits for the GPU and for Serve and Watch, deletes
// the queue pairs and gives everything back. A second Close does nothing, unless
// the first has left something:
//
//   - a *BusyError: kernels, or methods of the engine, did not end within
//     Options.Grace; nothing was freed;
//   - a *HeldError: a drive did not give up its queues, since it is gone or does
//     not answer; the payload stays until the drive was closed.
//
// Other errors are of single steps, joined; the rest was done.
func (e *Engine) Close() error {
	e.life.closeMu.Lock()
	defer e.life.closeMu.Unlock()
	if err := e.quiesce(); err != nil {
		return err
	}
	return e.release()
}

// Retire is the first part of Close, for an engine whose drives do not answer: the GPU's I/O
// ends for good, so that no command of it moves data any more, and the CPU can do I/O
// in its stead. Kernels are asked to end and waited for as in Close, queue pairs are deleted,
// and reset then resets the drives, which ends what they did not give up. The payload memory
// stays, to be read, until Close; other methods answer ErrClosed, and commands of kernels that
// are launched all the same end with Stopped at once. After a *BusyError nothing was
// given up. After another error drives may still move data.
func (e *Engine) Retire(reset func() error) error {
	e.life.closeMu.Lock()
	defer e.life.closeMu.Unlock()
	if err := e.quiesce(); err != nil {
		return err
	}
	err := e.markRetired()
	err = errors.Join(err, e.unregisterQueues()) // before a reset gives the rings other memory
	e.deleteQueues()
	if failed := reset(); failed != nil {
		return errors.Join(failed, err)
	}
	for _, p := range e.ports {
		p.held = nil
	}
	return err
}

// markRetired has kernels that come later, which nothing keeps from being launched, leave the
// queues alone: a lost context would take with it what the payload's owner has on the GPU.
func (e *Engine) markRetired() error {
	if e.memory == nil || e.gpu.Err() != nil {
		return nil
	}
	var errs []error
	for _, p := range e.ports {
		errs = append(errs, e.markFailed(context.Background(), p, Stopped))
	}
	return errors.Join(errs...)
}

// quiesce asks kernels to end, and waits until nobody uses the engine. The caller has closeMu.
func (e *Engine) quiesce() error {
	if e.control != nil {
		store32(e.control.Bytes(), stopAt, 1)
	}
	begun := time.Now()
	ctx, cancel := bounded(context.Background(), e.opts.Grace)
	defer cancel()
	if e.memory != nil && e.gpu.Err() == nil { // no kernel runs on a context that is lost
		// Serve goes on meanwhile: kernels may wait for its answers.
		if err := e.gpu.Synchronize(ctx); err != nil && e.gpu.Err() == nil {
			e.life.close()
			return &BusyError{"close", "kernels are", time.Since(begun).Round(time.Millisecond), err}
		}
	}
	e.life.close()
	select {
	case <-e.life.idle:
	case <-ctx.Done():
		return &BusyError{"close", "methods of the engine are", time.Since(begun).Round(time.Millisecond), nil}
	}
	return nil
}

// release gives everything back that is there, in the reverse order of Open. It
// may be called again for what it had to keep.
func (e *Engine) release() error {
	errs := []error{e.look.close()}
	if e.memory != nil {
		errs = append(errs, e.memory.Free())
		e.memory = nil
	}
	errs = append(errs, e.unregisterQueues())
	e.deleteQueues()
	var held HeldError
	for _, p := range e.ports {
		if p.held == nil {
			continue
		}
		if p.ctrl.Transport().Registers().Len() == 0 {
			p.held = nil // the transport was closed, and the controller's access ended with it
			continue
		}
		held.Drives = append(held.Drives, p.name)
		held.Err = errors.Join(held.Err, p.held)
	}
	if held.Err == nil {
		errs = append(errs, e.freePayload())
	} else {
		errs = append(errs, &held)
	}
	if e.control != nil {
		errs = append(errs, e.control.Free())
		e.control = nil
	}
	return e.once(errs)
}

// once joins errors, but names a lost context only once: it fails every step,
// and nothing of it is left.
func (e *Engine) once(errs []error) error {
	var out []error
	lost := false
	for _, err := range errs {
		if errors.Is(err, cuda.ErrSticky) {
			if lost {
				continue
			}
			lost = true
		}
		out = append(out, err)
	}
	return errors.Join(out...)
}
