package libnvm

import (
	"fmt"
	"strings"
)

// ControllerInfo is what Identify Controller (CNS 01h) says, as far as the
// driver or a report needs it.
type ControllerInfo struct {
	VendorID      uint16
	Serial        string
	Model         string
	Firmware      string
	ControllerID  uint16
	Version       uint32 // major in bits 31:16, minor in 15:8, tertiary in 7:0
	OACS          uint16 // optional admin commands
	ONCS          uint16 // optional I/O commands
	AbortLimit    int    // Abort commands outstanding at once
	EventLimit    int    // Asynchronous Event Requests outstanding at once
	ErrorEntries  int    // entries of the error information log
	MaxNamespaces uint32 // NN
	VolatileCache bool   // VWC: writes are durable only after a flush
	SGLs          uint32
	NQN           string

	maxTransfer int // bytes, by MDTS; 0 is no limit
}

// parseController reads 4096 bytes that may hold anything.
func parseController(b []byte) (ControllerInfo, error) {
	if len(b) < 4096 {
		return ControllerInfo{}, &ProtocolError{"Identify Controller", fmt.Sprintf("%d bytes", len(b))}
	}
	i := ControllerInfo{
		VendorID: le.Uint16(b), Serial: text(b[4:24]), Model: text(b[24:64]), Firmware: text(b[64:72]),
		ControllerID: le.Uint16(b[78:]), Version: le.Uint32(b[80:]), OACS: le.Uint16(b[256:]), ONCS: le.Uint16(b[520:]),
		AbortLimit: int(b[258]) + 1, EventLimit: int(b[259]) + 1, ErrorEntries: int(b[262]) + 1,
		MaxNamespaces: le.Uint32(b[516:]), VolatileCache: b[525]&1 == 1, SGLs: le.Uint32(b[536:]), NQN: text(b[768:1024]),
	}
	// MDTS is a power of two of CAP.MPSMIN pages, which are 4096 bytes here; a
	// limit above 1 GiB is as good as none.
	if m := b[77]; m > 0 && m <= 18 {
		i.maxTransfer = PageSize << m
	}
	// SQES and CQES: the least sizes must include what the driver uses.
	if sq, cq := b[512], b[513]; sq&0xf > 6 || cq&0xf > 4 || sq>>4 < 6 || cq>>4 < 4 {
		return i, &UnsupportedError{"the controller's entry size", fmt.Sprintf("SQES %#x, CQES %#x exclude entries of 64 and 16 bytes", sq, cq)}
	}
	return i, nil
}

// text is a field of ASCII padded with blanks, with what is not printable replaced.
func text(b []byte) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, strings.TrimRight(string(b), " \x00"))
	return strings.TrimSpace(s)
}
