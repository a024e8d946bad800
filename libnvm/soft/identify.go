package soft

import (
	"fmt"
	"hash/fnv"
	"math/bits"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/spec"
)

const errorLogEntries = 64

// identify answers the Identify command.
func (c *Controller) identify(t *thread, cmd *command) libnvm.Status {
	var b [4096]byte
	nsid := cmd.sqe.NSID
	switch uint8(cmd.sqe.CDW10) {
	case spec.CNSController:
		c.identifyController(b[:])
	case spec.CNSNamespace:
		ns := c.namespace(nsid)
		if ns == nil {
			return libnvm.StatusInvalidNamespace
		}
		c.identifyNamespace(b[:], ns)
	case spec.CNSActiveList:
		if nsid >= 0xfffffffe {
			return libnvm.StatusInvalidNamespace
		}
		for i, at := uint64(nsid)+1, 0; i <= uint64(len(c.namespaces)) && at < len(b); i, at = i+1, at+4 {
			le.PutUint32(b[at:], uint32(i))
		}
	case spec.CNSDescriptors:
		ns := c.namespace(nsid)
		if ns == nil {
			return libnvm.StatusInvalidNamespace
		}
		b[0], b[1] = 2, 16 // NGUID
		copy(b[4:], c.nguid(ns))
	default:
		return libnvm.StatusInvalidField
	}
	return t.copyOut(cmd, b[:])
}

func (c *Controller) identifyController(b []byte) {
	pad := func(at, n int, s string) { copy(b[at:at+n], fmt.Sprintf("%-*s", n, s)) }
	pad(4, 20, c.cfg.Serial)
	pad(24, 40, c.cfg.Model)
	pad(64, 8, "1.0")
	if c.cfg.MaxTransfer > 0 {
		b[77] = byte(bits.TrailingZeros(uint(c.cfg.MaxTransfer / pageSize)))
	}
	le.PutUint32(b[80:], 1<<16|4<<8)
	b[111] = 1 // an I/O controller
	b[258] = 3 // ACL, zero-based
	b[259] = eventLimit - 1
	b[260] = 3 << 1 // firmware slots: one, read-only
	b[262] = errorLogEntries - 1
	le.PutUint16(b[266:], 343) // warning temperature, kelvin
	b[512], b[513] = 0x66, 0x44
	le.PutUint32(b[516:], uint32(len(c.namespaces)))
	le.PutUint16(b[520:], spec.ONCSCompare|spec.ONCSDataset|spec.ONCSWriteZeroes)
	b[525] = 1 | 3<<1 // a volatile write cache; Flush takes all namespaces at once
	copy(b[768:1024], "nqn.2024-01.com.github.tritier:soft:"+c.cfg.Serial)
}

func (c *Controller) identifyNamespace(b []byte, ns *namespace) {
	le.PutUint64(b, ns.blocks)
	le.PutUint64(b[8:], ns.blocks)
	le.PutUint64(b[16:], ns.blocks)
	b[25] = 1 // two formats, zero-based
	if ns.readOnly {
		b[99] = 1
	}
	sizes := [2]int{512, 4096}
	if ns.blockSize != 512 {
		sizes[1] = ns.blockSize
		b[26] = 1
	}
	for i, s := range sizes {
		le.PutUint32(b[128+4*i:], uint32(bits.TrailingZeros(uint(s)))<<16)
	}
	copy(b[104:], c.nguid(ns))
}

// nguid identifies a namespace by the controller's serial number and its own.
func (c *Controller) nguid(ns *namespace) []byte {
	h := fnv.New128a()
	fmt.Fprintf(h, "%s/%d", c.cfg.Serial, ns.id)
	return h.Sum(nil)
}
