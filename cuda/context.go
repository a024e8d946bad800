package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Context is a share of a device's primary context: the one that CUDA's
// runtime, and so every other library in the process, uses for the device.
// Its methods, and those of what it makes, may be called from any goroutine.
type Context struct {
	// Lock order: the lock of an object that the context made (object.mu),
	// then mu, then reg.

	driver *Driver
	device *Device
	handle uintptr
	// lost is the first sticky error. All Contexts that hold the same
	// primary context share it.
	lost *atomic.Pointer[Error]
	// syncing has room for one running cuCtxSynchronize.
	syncing chan struct{}

	mu     sync.RWMutex // held for reading during a call that needs the context alive
	closed bool         // protected by mu

	reg  sync.Mutex         // protects live
	live map[owned]struct{} // what Close has to close
}

// owned is an object that lives in a context.
type owned interface {
	Close() error
	// rank orders the closing: memory first, since freeing it waits for the
	// work that uses it.
	rank() int
}

func newContext(d *Device, handle uintptr, lost *atomic.Pointer[Error]) *Context {
	return &Context{
		driver: d.driver, device: d, handle: handle, lost: lost,
		syncing: make(chan struct{}, 1),
		live:    make(map[owned]struct{}),
	}
}

// Device is the context's device.
func (c *Context) Device() *Device { return c.device }

// Same says whether both are shares of one primary context: to the driver they
// are the same, so that memory and streams of one can be used with the other.
func (c *Context) Same(other *Context) bool {
	return c != nil && other != nil && c.device == other.device && c.handle == other.handle
}

// Err is the context's first sticky error, nil if there was none. After a
// sticky error every call on the context fails, and memory that the GPU
// writes may hold anything.
func (c *Context) Err() error {
	if c.unmade() {
		return missing("cuda.Context.Err", "context")
	}
	if err := c.lost.Load(); err != nil {
		return err
	}
	return nil
}

// Close closes what is still open of the context's streams, events, memory
// and modules, and releases the primary context. Slices of its HostMemory must
// not be used after that. It waits for work that uses the memory, as the
// driver does; the errors of all steps are joined. Closing again does nothing.
func (c *Context) Close() error {
	if c.unmade() {
		return missing("cuda.Context.Close", "context")
	}
	c.mu.Lock()
	closed := c.closed
	c.closed = true // from here on, nothing new is made
	c.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for _, o := range c.owned() {
		errs = append(errs, o.Close())
	}
	errs = append(errs, c.device.release())
	return errors.Join(errs...)
}

// owned lists what is open, in the order in which to close it.
func (c *Context) owned() []owned {
	c.reg.Lock()
	defer c.reg.Unlock()
	all := make([]owned, 0, len(c.live))
	for o := range c.live {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b owned) int { return a.rank() - b.rank() })
	return all
}

func (c *Context) adopt(o owned) {
	c.reg.Lock()
	defer c.reg.Unlock()
	c.live[o] = struct{}{}
}

func (c *Context) forget(o owned) {
	c.reg.Lock()
	defer c.reg.Unlock()
	delete(c.live, o)
}

// acquire keeps the context from being closed until c.mu.RUnlock, if it is open.
func (c *Context) acquire(call string) error {
	if c.unmade() {
		return missing(call, "context")
	}
	c.mu.RLock()
	if c.closed {
		c.mu.RUnlock()
		return closedError(call, "context of "+c.device.String())
	}
	return nil
}

// unmade says whether there is no context, or one that Retain did not make.
func (c *Context) unmade() bool { return c == nil || c.device == nil }

// fail is the error of a call that returned r; a sticky one is remembered,
// if it is the first.
func (c *Context) fail(s Symbol, r Result) *Error {
	err := c.driver.newError(s, r)
	if !r.Sticky() {
		return err
	}
	first := *err
	first.On = c.device.String()
	if !c.lost.CompareAndSwap(nil, &first) {
		err.cause = c.lost.Load()
	}
	return err
}

// lostError is the error of a call on a context that was lost before.
func (c *Context) lostError(s Symbol, first *Error) error {
	return &Error{
		Call: s.String(), Result: first.Result, Name: first.Name,
		Text: "not called, since the context is lost", cause: first,
	}
}

// Do runs f with its goroutine locked to a thread on which the context is
// current: for calls of other libraries that go by the current context. Calls
// of this package do not need it, and may leave another context current.
func (c *Context) Do(f func() error) error {
	if f == nil {
		return missing("cuda.Context.Do", "function")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.enter(); err != nil {
		return err
	}
	// No lock is held here: f may close the context, and its later calls
	// then say that it is closed.
	return f()
}

// enter makes the context current for Do.
func (c *Context) enter() error {
	if err := c.acquire("cuda.Context.Do"); err != nil {
		return err
	}
	defer c.mu.RUnlock()
	if err := c.lost.Load(); err != nil {
		return c.lostError(SymCtxSetCurrent, err)
	}
	fr := newFrame()
	defer fr.free()
	if r := c.makeCurrent(fr); r != Success {
		return c.fail(SymCtxSetCurrent, r)
	}
	return nil
}

// Synchronize waits for all work in the context, of every stream and of
// every library in the process. CUDA has no query for that, so the wait
// itself runs on a thread of its own: if ctx ends first, Synchronize returns a
// *DeadlineError and that thread, never more than one for a Context, stays
// until the work is done.
func (c *Context) Synchronize(ctx context.Context) error {
	const call = "cuda.Context.Synchronize"
	if c.unmade() {
		return missing(call, "context")
	}
	if ctx == nil {
		return missing(call, "context.Context")
	}
	start := time.Now()
	select {
	case c.syncing <- struct{}{}:
	case <-ctx.Done():
		return c.syncDeadline(ctx, start)
	}
	if err := c.acquire(call); err != nil {
		<-c.syncing
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-c.syncing }()
		defer c.mu.RUnlock()
		done <- c.call(SymCtxSynchronize)
	}()
	select {
	case err := <-done:
		return about(err, "%s", c.device)
	case <-ctx.Done():
		return c.syncDeadline(ctx, start)
	}
}

func (c *Context) syncDeadline(ctx context.Context, start time.Time) error {
	return &DeadlineError{
		Wait: fmt.Sprintf("all work on %s", c.device), Elapsed: time.Since(start), Err: context.Cause(ctx),
	}
}

// EnablePeer lets kernels and copies of this context use memory of the other
// one, on another device. It is no error if they already can.
func (c *Context) EnablePeer(other *Context) error {
	const call = "cuda.Context.EnablePeer"
	if err := c.acquire(call); err != nil {
		return err
	}
	defer c.mu.RUnlock()
	if other.unmade() {
		return missing(call, "other context")
	}
	if other == c {
		return refused(call, "a context needs no permission for its own memory", "%s to memory of itself", c.device)
	}
	// Two contexts may enable each other at once: TryRLock, since waiting
	// for the second lock with the first one held could wait in a circle
	// with two Close.
	if !other.mu.TryRLock() {
		return closedError(call, "context of "+other.device.String())
	}
	defer other.mu.RUnlock()
	if other.closed {
		return closedError(call, "context of "+other.device.String())
	}
	err := c.call(SymCtxEnablePeerAccess, other.handle, 0)
	if errors.Is(err, PeerAccessAlreadyEnabled) {
		return nil
	}
	return about(err, "%s to memory of %s", c.device, other.device)
}

// object is what a Context makes: a handle that must not reach the driver
// after it was destroyed.
type object struct {
	ctx  *Context
	kind string // for errors, such as "stream"

	mu     sync.RWMutex // held for reading during each call that passes handle
	closed bool         // protected by mu
	handle uintptr      // set once
}

// acquire keeps the handle, and with it the context, valid until release. A
// function that needs several takes a stream first, then an event, then a module.
func (o *object) acquire(call string) error {
	if o.ctx == nil {
		return missing(call, "handle")
	}
	o.mu.RLock()
	if o.closed {
		o.mu.RUnlock()
		return closedError(call, o.kind)
	}
	return nil
}

func (o *object) release() { o.mu.RUnlock() }

// destroy closes the object once; self is the same object, as the context
// knows it. The object is forgotten only after the driver's call, so that
// Context.Close waits for it before it releases the context.
func (o *object) destroy(self owned, s Symbol, call string) error {
	if o.ctx == nil {
		return missing(call, "handle")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	defer o.ctx.forget(self)
	return about(o.ctx.callAlways(s, o.handle), "%s on %s", o.kind, o.ctx.device)
}
