package libnvm

import (
	"encoding/hex"
	"fmt"
	"math/bits"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// LBAFormat is one of the block formats that a namespace can have.
type LBAFormat struct {
	BlockSize     int // bytes; 0 is a format that is not available
	MetadataBytes int
	Performance   uint8 // 0 best to 3 worst
}

// Namespace is an active namespace. It does not change once it was read.
type Namespace struct {
	ID        uint32
	Blocks    uint64 // NSZE
	BlockSize int    // bytes
	Format    int    // index in Formats
	Formats   []LBAFormat
	EUI64     string // in hexadecimal, empty when it has none
	NGUID     string
	// DeallocateReads says what a deallocated block reads as: 0 not reported, 1 zeroes, 2 ones.
	DeallocateReads uint8

	ctrl    *Controller
	shift   uint
	maxData uint64 // blocks that one command moves
}

// Bytes is the size of the namespace.
func (n *Namespace) Bytes() uint64 { return n.Blocks << n.shift }

// maxBlocks is how many blocks one command of the operation can have.
func (n *Namespace) maxBlocks(op Opcode) uint64 {
	switch op {
	case OpDataset:
		return 1<<32 - 1
	case OpWriteZeroes:
		return 1 << 16
	case OpFlush:
		return 1
	}
	return n.maxData
}

// Namespace reads the identify data of an active namespace.
func (c *Controller) Namespace(id uint32) (*Namespace, error) {
	b, err := c.Identify(spec.CNSNamespace, id, 0)
	if err != nil {
		return nil, fmt.Errorf("namespace %d: %w", id, err)
	}
	n, err := parseNamespace(id, b, c.maxTransfer)
	if err != nil {
		return nil, fmt.Errorf("namespace %d: %w", id, err)
	}
	n.ctrl = c
	return n, nil
}

// Namespaces reads all active namespaces that the driver can use, in the order
// of their ids. A namespace with a format that it cannot use is left out here;
// Namespace says why.
func (c *Controller) Namespaces() ([]*Namespace, error) {
	ids, err := c.NamespaceIDs()
	if err != nil {
		return nil, err
	}
	var ns []*Namespace
	for _, id := range ids {
		n, err := c.Namespace(id)
		if isUnsupported(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ns = append(ns, n)
	}
	return ns, nil
}

// maxNamespaces bounds the list of namespaces against a controller that never
// ends it.
const maxNamespaces = 1 << 16

// NamespaceIDs lists the ids of the active namespaces, ascending.
func (c *Controller) NamespaceIDs() ([]uint32, error) {
	var ids []uint32
	last := uint32(0)
	for len(ids) < maxNamespaces {
		b, err := c.Identify(spec.CNSActiveList, last, 0)
		if err != nil {
			return nil, fmt.Errorf("list namespaces: %w", err)
		}
		for i := 0; i < len(b); i += 4 {
			id := le.Uint32(b[i:])
			if id == 0 {
				return ids, nil
			}
			if id <= last || id >= 0xfffffffe {
				return nil, &ProtocolError{"active namespace list", fmt.Sprintf("id %#x follows %#x", id, last)}
			}
			ids = append(ids, id)
			last = id
		}
	}
	return nil, &ProtocolError{"active namespace list", fmt.Sprintf("more than %d namespaces", maxNamespaces)}
}

// parseNamespace reads 4096 bytes that may hold anything.
func parseNamespace(id uint32, b []byte, maxTransfer int) (*Namespace, error) {
	if len(b) < 4096 {
		return nil, &ProtocolError{"Identify Namespace", fmt.Sprintf("%d bytes", len(b))}
	}
	n := &Namespace{ID: id, Blocks: le.Uint64(b), Format: int(b[26]&0xf) | int(b[26]>>5&3)<<4, DeallocateReads: b[33] & 7}
	if n.Blocks == 0 {
		return nil, &UnsupportedError{"the namespace", "it is not active (NSZE is 0)"}
	}
	for i := range min(int(b[25])+1, 64) {
		f := le.Uint32(b[128+4*i:])
		x := LBAFormat{MetadataBytes: int(f & 0xffff), Performance: uint8(f >> 24 & 3)}
		if lbads := f >> 16 & 0xff; lbads >= 9 && lbads < 31 {
			x.BlockSize = 1 << lbads
		}
		n.Formats = append(n.Formats, x)
	}
	if n.Format >= len(n.Formats) {
		return nil, &ProtocolError{"Identify Namespace", fmt.Sprintf("format %d of %d", n.Format, len(n.Formats))}
	}
	f := n.Formats[n.Format]
	switch {
	case f.BlockSize == 0:
		return nil, &UnsupportedError{"the block size", "LBADS is below 9 or above 30"}
	case f.MetadataBytes != 0:
		return nil, &UnsupportedError{"metadata", fmt.Sprintf("the namespace is formatted with %d bytes of metadata for each block; format it without", f.MetadataBytes)}
	case f.BlockSize > maxTransfer:
		return nil, &UnsupportedError{"the block size", fmt.Sprintf("%d bytes are more than one command moves, %d", f.BlockSize, maxTransfer)}
	}
	n.BlockSize = f.BlockSize
	n.shift = uint(bits.TrailingZeros(uint(f.BlockSize)))
	if n.Blocks > 1<<63>>n.shift {
		return nil, &ProtocolError{"Identify Namespace", fmt.Sprintf("%d blocks of %d bytes overflow 64 bits", n.Blocks, n.BlockSize)}
	}
	n.maxData = min(uint64(maxTransfer>>n.shift), 1<<16)
	n.NGUID, n.EUI64 = identifier(b[104:120]), identifier(b[120:128])
	return n, nil
}

// identifier is an EUI64 or NGUID in hexadecimal; all zeroes means none.
func identifier(b []byte) string {
	for _, x := range b {
		if x != 0 {
			return hex.EncodeToString(b)
		}
	}
	return ""
}
