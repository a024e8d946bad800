package libnvm

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

var le = binary.LittleEndian

// Opcode is a command's operation. Admin and I/O commands have separate numbers.
type Opcode uint8

// I/O commands of the NVM command set.
const (
	OpFlush       Opcode = 0x00
	OpWrite       Opcode = 0x01
	OpRead        Opcode = 0x02
	OpCompare     Opcode = 0x05
	OpWriteZeroes Opcode = 0x08
	OpDataset     Opcode = 0x09 // dataset management; the driver uses its deallocate attribute
)

// Admin commands.
const (
	AdminDeleteSQ    Opcode = 0x00
	AdminCreateSQ    Opcode = 0x01
	AdminGetLogPage  Opcode = 0x02
	AdminDeleteCQ    Opcode = 0x04
	AdminCreateCQ    Opcode = 0x05
	AdminIdentify    Opcode = 0x06
	AdminAbort       Opcode = 0x08
	AdminSetFeatures Opcode = 0x09
	AdminGetFeatures Opcode = 0x0a
	AdminAsyncEvent  Opcode = 0x0c
)

// Name is the opcode's name among the admin or the I/O commands.
func (o Opcode) Name(admin bool) string {
	names := ioNames
	if admin {
		names = adminNames
	}
	if n, ok := names[o]; ok {
		return n
	}
	return fmt.Sprintf("opcode %#02x", uint8(o))
}

var ioNames = map[Opcode]string{
	OpFlush: "Flush", OpWrite: "Write", OpRead: "Read", OpCompare: "Compare",
	OpWriteZeroes: "Write Zeroes", OpDataset: "Dataset Management",
}

var adminNames = map[Opcode]string{
	AdminDeleteSQ: "Delete I/O Submission Queue", AdminCreateSQ: "Create I/O Submission Queue", AdminGetLogPage: "Get Log Page",
	AdminDeleteCQ: "Delete I/O Completion Queue", AdminCreateCQ: "Create I/O Completion Queue", AdminIdentify: "Identify",
	AdminAbort: "Abort", AdminSetFeatures: "Set Features", AdminGetFeatures: "Get Features", AdminAsyncEvent: "Asynchronous Event Request",
}

// Command is a submission queue entry as it lies in memory: 64 bytes,
// little-endian. The driver runs on little-endian machines only, so it is
// copied as it is. CID is filled in when the command is submitted.
type Command struct {
	Opcode Opcode
	Flags  uint8 // fused operation in bits 1:0, PRP or SGL in bits 7:6
	CID    uint16
	NSID   uint32
	CDW2   uint32
	CDW3   uint32
	MPTR   uint64
	PRP1   uint64
	PRP2   uint64
	CDW10  uint32
	CDW11  uint32
	CDW12  uint32
	CDW13  uint32
	CDW14  uint32
	CDW15  uint32
}

const (
	sqeSize = 64
	cqeSize = 16
)

// cqe is a completion queue entry as the controller writes it. Dword 3 has the
// command id in bits 15:0, the phase tag in bit 16, the status above; it is
// read first, and atomically.
type cqe struct {
	dw0, dw1 uint32
	sqhd     uint16
	sqid     uint16
	dw3      uint32
}

// put writes the entry over whatever the slot held before, all 64 bytes of it.
func (c *Command) put(slot unsafe.Pointer, cid uint16) {
	e := (*Command)(slot)
	*e = *c
	e.CID = cid
}
