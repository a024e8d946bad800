package drive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/libnvm"
)

const (
	// headBytes is how much of a namespace's beginning Content reads: the
	// farthest mark that it knows is Btrfs's, at 64 KiB and 64 bytes.
	headBytes = 68 << 10
	// volumeMark is the magic of a tritier volume's superblock, at offset 0 (libnvm/volume/FORMAT.md).
	volumeMark = "TRITIERV"
)

// Content names what the drive holds that somebody may miss: a file system, a
// partition table, a tritier volume. It is "" when nothing known is there. It
// reads the first blocks of every namespace.
func (d *Drive) Content() (what string, err error) {
	if d.Controller == nil {
		return "", fmt.Errorf("%s: its content is asked for before BringUp", d.URI)
	}
	all, err := d.Controller.Namespaces()
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.URI, err)
	}
	q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: min(16, d.Controller.MaxDepth())})
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.URI, err)
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	for _, ns := range all {
		s, err := d.head(q, ns)
		if err != nil {
			return "", fmt.Errorf("%s: the beginning of namespace %d cannot be read: %w", d.URI, ns.ID, err)
		}
		if s != "" {
			return s, nil
		}
	}
	return "", nil
}

func (d *Drive) head(q *libnvm.QueuePair, ns *libnvm.Namespace) (what string, err error) {
	blocks := min(uint64((headBytes+ns.BlockSize-1)/ns.BlockSize), ns.Blocks)
	mem, err := d.Transport.Alloc(int(blocks) * ns.BlockSize)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, mem.Free()) }()
	if err := q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: blocks, Mem: mem}); err != nil {
		return "", err
	}
	return signature(bytes.NewReader(mem.Bytes()[:int(blocks)*ns.BlockSize]))
}

// signature names what somebody may miss among what is read.
func signature(r io.ReaderAt) (string, error) {
	mark := make([]byte, len(volumeMark))
	if _, err := r.ReadAt(mark, 0); err == nil && string(mark) == volumeMark {
		return "tritier volume", nil
	}
	return pci.Signature(r)
}

// mayExtend refuses to extend a file that holds what somebody may miss.
func (u URI) mayExtend(r io.ReaderAt) (bool, error) {
	what, err := signature(r)
	if err == nil && what != "" {
		err = &HoldsError{u.String(), what}
	}
	return err == nil, err
}

// checkFiles refuses files of a list before any of them is made or extended. What cannot be
// looked at is for the opening to say.
func checkFiles(us []URI, o Options) error {
	for _, u := range us {
		if u.Scheme != File || u.Size == 0 || o.Access != ReadWrite || o.Force {
			continue
		}
		info, err := os.Stat(u.Path)
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() >= int64(u.Size) {
			continue
		}
		f, err := os.Open(u.Path)
		if err != nil {
			continue
		}
		_, err = u.mayExtend(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
