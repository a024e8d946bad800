package volume

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tritier/tritier/libnvm"
)

// NamespaceOptions are the choices at NewNamespace.
type NamespaceOptions struct {
	// LockDir is where the lock file is: by default /run/lock.
	LockDir string
	// Identity replaces the one that the namespace reports.
	Identity *Identity
	// Name replaces serial number and namespace id in messages.
	Name string
	// NoLock is for storage that is locked already.
	NoLock bool
	// Close, if set, is called by the member's Close, to close the controller
	// and its transport.
	Close func() error
	// Reset, if set, is what Volume.Recover calls: the controller's Reset, when
	// nothing but the volume uses the controller.
	Reset func() error
	// HostError, if set, is the system's error behind the last command that a software
	// controller has failed, or nil.
	HostError func() error
}

// NVMeMember is a Member on an NVMe namespace: that of NewNamespace and OpenFiles.
type NVMeMember interface {
	Member
	NVMe() (*libnvm.Controller, *libnvm.Namespace)
}

// HostErrorer is a Member that may know more of a failed command than its status says: one
// of NewNamespace and OpenFiles.
type HostErrorer interface {
	// HostError is what NamespaceOptions.HostError gives, nil where there is none.
	HostError() error
}

// namespace is a Member on an NVMe namespace.
type namespace struct {
	c    *libnvm.Controller
	ns   *libnvm.Namespace
	o    NamespaceOptions
	id   Identity
	lock *nameLock
}

// NewNamespace makes a namespace a member. It takes a lock that keeps other
// processes on this host from the namespace, or returns a *LockedError.
func NewNamespace(c *libnvm.Controller, ns *libnvm.Namespace, o NamespaceOptions) (Member, error) {
	if ns.Bytes() > 1<<62 {
		return nil, fmt.Errorf("volume: namespace %d of %d bytes is too large", ns.ID, ns.Bytes())
	}
	m := &namespace{c: c, ns: ns, o: o, id: Identity{Serial: c.Info().Serial, NSID: ns.ID}}
	for _, s := range []string{ns.EUI64, ns.NGUID} {
		if b, err := hex.DecodeString(s); err == nil && len(b) > 0 {
			m.id.UUID = [16]byte{}
			copy(m.id.UUID[:], b)
		}
	}
	if o.Identity != nil {
		m.id = *o.Identity
	}
	if o.Name == "" {
		m.o.Name = m.id.String()
	}
	if o.NoLock {
		return m, nil
	}
	lock, err := lockName(o.LockDir, fmt.Sprintf("%s-%d", c.Info().Serial, ns.ID))
	if err != nil {
		return nil, err
	}
	m.lock = lock
	return m, nil
}

// NVMe is the controller and namespace behind the member: for a producer of commands
// beside the volume's queues, see Volume.Layout. Such a member is an NVMeMember.
func (m *namespace) NVMe() (*libnvm.Controller, *libnvm.Namespace) { return m.c, m.ns }

func (m *namespace) Name() string       { return m.o.Name }
func (m *namespace) Identity() Identity { return m.id }
func (m *namespace) BlockSize() int     { return m.ns.BlockSize }
func (m *namespace) Size() int64        { return int64(m.ns.Bytes()) }

func (m *namespace) Alloc(bytes int) ([]byte, Mapping, error) {
	mem, err := m.c.Transport().Alloc(bytes)
	if err != nil {
		return nil, nil, err
	}
	return mem.Bytes()[:bytes], mem, nil
}

func (m *namespace) Map(buf []byte) (Mapping, error) {
	mem, err := m.c.Transport().Map(buf)
	if err != nil {
		return nil, err
	}
	return mem, nil
}

func (m *namespace) OpenQueue(depth int) (MemberQueue, error) {
	if depth < 1 {
		return nil, fmt.Errorf("volume: a queue of depth %d", depth)
	}
	// A queue of n entries holds n-1 commands.
	q, err := m.c.CreateQueuePair(libnvm.QueueConfig{Depth: min(depth+1, m.c.MaxDepth())})
	if err != nil {
		return nil, err
	}
	return &namespaceQueue{q: q, ns: m.ns, host: m.o.HostError}, nil
}

// HostError is HostErrorer's.
func (m *namespace) HostError() error {
	if m.o.HostError == nil {
		return nil
	}
	return m.o.HostError()
}

// Reset is Resetter's.
func (m *namespace) Reset() error {
	if m.o.Reset == nil {
		return ErrNoReset
	}
	return m.o.Reset()
}

func (m *namespace) Close() error {
	var errs []error
	if m.o.Close != nil {
		errs = append(errs, m.o.Close())
	}
	if m.lock != nil { // last: until here the storage is ours
		errs = append(errs, m.lock.release())
	}
	return errors.Join(errs...)
}

// namespaceQueue is a MemberQueue on a queue pair.
type namespaceQueue struct {
	q    *libnvm.QueuePair
	ns   *libnvm.Namespace
	host func() error // see NamespaceOptions.HostError
	done [64]libnvm.Completion
}

var opcodes = [...]libnvm.Opcode{OpRead: libnvm.OpRead, OpWrite: libnvm.OpWrite, OpFlush: libnvm.OpFlush, OpWriteZeroes: libnvm.OpWriteZeroes}

func (q *namespaceQueue) Submit(op *Op) error {
	size := uint64(q.ns.BlockSize)
	r := libnvm.Request{Op: opcodes[op.Kind&3], NS: q.ns, LBA: uint64(op.Offset) / size, Blocks: uint64(op.Length) / size,
		Offset: op.MemOffset, FUA: op.FUA, Tag: op.Tag, Timeout: op.Timeout}
	if op.Kind == OpRead || op.Kind == OpWrite {
		mem, ok := op.Mem.(*libnvm.Memory)
		if !ok {
			return fmt.Errorf("volume: memory of another member: %T", op.Mem)
		}
		r.Mem = mem
	}
	_, err := q.q.Submit(&r)
	var unsupported *libnvm.UnsupportedError
	switch {
	case errors.Is(err, libnvm.ErrQueueFull):
		return ErrQueueFull
	case op.Kind == OpWriteZeroes && errors.As(err, &unsupported):
		return ErrNoZeroes
	}
	return err
}

func (q *namespaceQueue) Poll(done []Done) int {
	n := q.q.Poll(q.done[:min(len(q.done), len(done))])
	for i, c := range q.done[:n] {
		done[i] = Done{c.Tag, q.explained(c.Err)}
	}
	return n
}

// explained adds to a drive's status what the system says, if it was the system that failed:
// a full disk is no more than Capacity Exceeded otherwise.
func (q *namespaceQueue) explained(err error) error {
	var status *libnvm.StatusError
	if q.host == nil || !errors.As(err, &status) {
		return err
	}
	host := q.host()
	if host == nil {
		return err
	}
	return fmt.Errorf("%w; the host says: %w", err, host)
}

func (q *namespaceQueue) Held() int { return q.q.Quarantined() }

func (q *namespaceQueue) Close() error { return q.q.Close() }
