package tritier

import (
	"errors"

	"github.com/tritier/tritier/cuda"
)

// OpenDriver is the driver that Open uses.
func OpenDriver() (*cuda.Driver, error) { return openDriver() }

// UseBackend makes Open find this driver, or none if nil; the call that it returns undoes that.
func UseBackend(b cuda.Backend) (undo func()) {
	was := openDriver
	var d *cuda.Driver
	err := errors.New("no driver")
	if b != nil {
		d, err = cuda.OpenBackend(b)
	}
	openDriver = func() (*cuda.Driver, error) { return d, err }
	return func() { openDriver = was }
}

// Frames looks at T1 as a reader of pins does that a Close has overtaken.
func Frames(m *Memory) (uint64, []byte) { return m.eng.frames() }

// Copies is what Stats says of pages by direction and way.
var Copies = copies
