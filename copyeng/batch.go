package copyeng

import (
	"errors"
	"fmt"
	"math/bits"
)

// Direction is where the pages of a batch go.
type Direction uint8

// The directions.
const (
	ToDevice Direction = iota // host memory to device memory
	ToHost                    // device memory to host memory

	// bothWays is an exchange: curves are kept for it, no batch has it.
	bothWays
	directions = 3
)

// String is "to-device" or "to-host", as in reports and calibration files.
func (d Direction) String() string {
	switch d {
	case ToDevice:
		return "to-device"
	case ToHost:
		return "to-host"
	case bothWays:
		return "both-ways"
	}
	return fmt.Sprintf("direction %d", uint8(d))
}

// The page sizes that engines take, in bytes: powers of two between these.
const (
	MinPage = 512
	MaxPage = 2 << 20
)

// MaxPages bounds the pages of one batch.
const MaxPages = 1 << 20

// Pair names one page of a batch by its number in each space: byte offset over
// page size. The GPU reads pairs as two consecutive 32-bit words.
type Pair struct {
	Host, Device uint32
}

// Batch is a set of pages to copy one way.
type Batch struct {
	Dir      Direction
	Host     *Space // of kind HostMemory
	Device   *Space // of kind DeviceMemory
	PageSize int    // bytes: a power of two, MinPage to MaxPage
	Pairs    []Pair
}

// Bytes is the payload of the batch.
func (b *Batch) Bytes() int64 { return int64(b.PageSize) * int64(len(b.Pairs)) }

// ErrClosed is the error of a space, queue or engine that has been closed.
var ErrClosed = errors.New("closed")

// BatchError says what is wrong with a batch. Nothing of it was copied.
type BatchError struct {
	Field string // "page size", "host page", ...
	What  string
}

// Error gives one line.
func (e *BatchError) Error() string { return "copy batch: " + e.Field + ": " + e.What }

// validPage says whether engines take pages of size bytes.
func validPage(size int) bool {
	return size >= MinPage && size <= MaxPage && bits.OnesCount(uint(size)) == 1
}

// check validates a batch for an engine. Every page number is looked at: one
// out of bounds would write over memory that is not the caller's.
func (b *Batch) check(owner any) error {
	if b.Dir > ToHost {
		return &BatchError{"direction", fmt.Sprintf("%d is neither ToDevice nor ToHost", b.Dir)}
	}
	if !validPage(b.PageSize) {
		return &BatchError{"page size", fmt.Sprintf("%d is not a power of two from %d to %d", b.PageSize, MinPage, MaxPage)}
	}
	if len(b.Pairs) > MaxPages {
		return &BatchError{"pages", fmt.Sprintf("%d are more than %d; split the batch", len(b.Pairs), MaxPages)}
	}
	if err := b.Host.usable(owner, HostMemory, "host space"); err != nil {
		return err
	}
	if err := b.Device.usable(owner, DeviceMemory, "device space"); err != nil {
		return err
	}
	shift := bits.TrailingZeros(uint(b.PageSize))
	hosts, devices := b.Host.size>>shift, b.Device.size>>shift
	var worstHost, worstDevice uint32
	for _, p := range b.Pairs {
		worstHost, worstDevice = max(worstHost, p.Host), max(worstDevice, p.Device)
	}
	if len(b.Pairs) == 0 {
		return nil
	}
	if uint64(worstHost) >= hosts {
		return &BatchError{"host page", fmt.Sprintf("%d is outside the host space of %d pages of %d bytes", worstHost, hosts, b.PageSize)}
	}
	if uint64(worstDevice) >= devices {
		return &BatchError{"device page", fmt.Sprintf("%d is outside the device space of %d pages of %d bytes", worstDevice, devices, b.PageSize)}
	}
	return nil
}
