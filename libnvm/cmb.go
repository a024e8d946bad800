package libnvm

import (
	"fmt"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// controllerMemory hands out pages of the controller memory buffer. It is used
// under the controller's admin lock.
type controllerMemory struct {
	mem  *Memory
	used []bool // a page each
	why  string // why there is none
}

// setUpCMB enables the controller memory buffer, if there is one that can hold
// submission queues. Only controllers that let the host choose the buffer's
// address (CAP.CMBS, since NVMe 1.4) qualify: the address that an older buffer
// has in the controller's view is not known behind an IOMMU.
func (c *Controller) setUpCMB() error {
	c.cmb.why = "the controller has none that the host can place (CAP.CMBS)"
	if c.caps&spec.CapCMBS == 0 {
		return nil
	}
	showCMB(c.regs)
	loc, size := c.regs.Read32(spec.RegCMBLOC), c.regs.Read32(spec.RegCMBSZ)
	unit := uint64(4096) << (4 * min(size>>8&0xf, 6))
	bytes, off := uint64(size>>12)*unit, uint64(loc>>12)*unit
	if size&spec.CMBSQS == 0 || bytes == 0 {
		c.cmb.why = "the controller's takes no submission queues (CMBSZ.SQS)"
		return nil
	}
	bar, err := c.cmbBAR(int(loc & 7))
	if err != nil {
		c.cmb.why = err.Error()
		return nil
	}
	if off > uint64(len(bar)) || bytes > uint64(len(bar))-off {
		return &ProtocolError{"controller memory buffer", fmt.Sprintf("%d bytes at %#x of a BAR of %d bytes", bytes, off, len(bar))}
	}
	base := c.cfg.CMBBase
	placeCMB(c.regs, base)
	if c.regs.Read32(spec.RegCMBSTS)&spec.CMBCBAI != 0 {
		c.cmb.why = fmt.Sprintf("the controller refuses the base address %#x; set Config.CMBBase", base)
		return nil
	}
	if c.cmb.mem == nil {
		m, err := NewMemory(bar[off:off+bytes:off+bytes], base, nil)
		if err != nil {
			return err
		}
		c.cmb.mem, c.cmb.used = m, make([]bool, bytes/PageSize)
	}
	c.cmb.why = ""
	return nil
}

// registerWriter is the part of Registers that placing the buffer takes.
type registerWriter interface{ Write32(off int, v uint32) }

// showCMB makes the controller show what buffer it has (CMBMSC.CRE), with the
// address range off: the low dword comes first, since it holds CMSE.
func showCMB(r registerWriter) {
	r.Write32(spec.RegCMBMSC, spec.CMBCRE)
	r.Write32(spec.RegCMBMSC+4, 0)
}

// placeCMB gives the buffer its address in the controller's address space. The
// high dword comes first and the low one, which holds the enable bit CMSE,
// last: else the buffer is for a moment, or in a controller that takes the
// address over with CMSE for good, at the low half of the address, in front of
// what the host has there.
func placeCMB(r registerWriter, base uint64) {
	r.Write32(spec.RegCMBMSC+4, uint32(base>>32))
	r.Write32(spec.RegCMBMSC, uint32(base)|spec.CMBCRE|spec.CMBCMSE)
}

func (c *Controller) cmbBAR(bir int) ([]byte, error) {
	if bir == 0 {
		return c.regs.bytes(), nil
	}
	t, ok := c.tr.(CMB)
	if !ok {
		return nil, &UnsupportedError{"the controller memory buffer", fmt.Sprintf("it is in BAR %d, which the %s transport does not map", bir, c.tr.Name())}
	}
	return t.BAR(bir)
}

// CMBBytes is the size of the controller memory buffer, 0 when there is none
// that can hold submission queues.
func (c *Controller) CMBBytes() int {
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	if c.cmb.mem == nil || c.cmb.why != "" {
		return 0
	}
	return c.cmb.mem.Len()
}

// take gives out n bytes in whole pages.
func (b *controllerMemory) take(n int) (*Memory, int, error) {
	if b.mem == nil || b.why != "" {
		return nil, 0, &UnsupportedError{"a queue in the controller memory buffer", b.why}
	}
	need, run := (n+PageSize-1)/PageSize, 0
	for i, u := range b.used {
		run++
		if u {
			run = 0
		}
		if run == need {
			first := i - need + 1
			for k := first; k <= i; k++ {
				b.used[k] = true
			}
			return b.mem, first * PageSize, nil
		}
	}
	return nil, 0, &UnsupportedError{"a queue in the controller memory buffer", fmt.Sprintf("no %d bytes are free in it", n)}
}

// give takes n bytes back.
func (b *controllerMemory) give(at, n int) {
	for k := at / PageSize; k < (at+n+PageSize-1)/PageSize && k < len(b.used); k++ {
		b.used[k] = false
	}
}
