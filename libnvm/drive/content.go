package drive

import (
	"bytes"
	"errors"
	"fmt"

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
	head := mem.Bytes()[:int(blocks)*ns.BlockSize]
	if bytes.HasPrefix(head, []byte(volumeMark)) {
		return "tritier volume", nil
	}
	return pci.Signature(bytes.NewReader(head))
}
