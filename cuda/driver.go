package cuda

import (
	"fmt"
	"sync"
)

// Version is the CUDA version that a driver supports, as the driver counts:
// 13000 is 13.0 and 12080 is 12.8.
type Version int

// String is the version as people write it, such as "12.8".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.major(), v.minor()) }

// AtLeast says whether the version is major.minor or later.
func (v Version) AtLeast(major, minor int) bool {
	return v.major() > major || v.major() == major && v.minor() >= minor
}

func (v Version) major() int { return int(v) / 1000 }
func (v Version) minor() int { return int(v) % 1000 / 10 }

// Driver is the loaded CUDA driver. Its methods may be called from any
// goroutine. There is nothing to close: the library stays for the process.
type Driver struct {
	backend Backend
	has     [numSymbols]bool // set once, by OpenBackend
	version Version

	mu      sync.Mutex // protects the two below
	devices []*Device
	texts   map[Result]resultText
}

type resultText struct{ name, text string }

// process is the driver that Open has loaded.
var process struct {
	mu     sync.Mutex
	driver *Driver
}

// Open loads the CUDA driver's library and initialises it, once per process:
// later calls give the same Driver. A failure is not remembered.
//
// Its errors are a *MissingLibraryError without a driver, a
// *MissingSymbolError for one that is older than this package can use at
// all, and an *Error for what cuInit says: ErrNoDevice where there is no GPU.
func Open() (*Driver, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	if process.driver != nil {
		return process.driver, nil
	}
	b, err := openLibrary()
	if err != nil {
		return nil, err
	}
	d, err := OpenBackend(b)
	if err != nil {
		return nil, err
	}
	process.driver = d
	return d, nil
}

// OpenBackend is Open over another implementation of the driver's calls: a
// software GPU, in tests.
func OpenBackend(b Backend) (*Driver, error) {
	if b == nil {
		return nil, missing("cuda.OpenBackend", "backend")
	}
	d := &Driver{backend: b, texts: make(map[Result]resultText)}
	for _, s := range Symbols() {
		d.has[s] = b.Has(s)
	}
	// The version first: it needs no initialisation, and it is in the
	// error when cuInit fails.
	v, err := d.readVersion()
	if err != nil {
		return nil, err
	}
	d.version = v
	if err := d.call(SymInit, 0); err != nil {
		return nil, about(err, "driver for CUDA %s", v)
	}
	return d, nil
}

// Version is the CUDA version that the driver supports.
func (d *Driver) Version() Version { return d.version }

// Has says whether the driver exports the function. A call that needs one
// that is missing returns a *MissingSymbolError.
func (d *Driver) Has(s Symbol) bool { return s >= 0 && s < numSymbols && d.has[s] }

// unmade says whether there is no driver, or one that was not opened.
func (d *Driver) unmade() bool { return d == nil || d.backend == nil }

// check turns a result into an error; Success is nil.
func (d *Driver) check(s Symbol, r Result) error {
	switch r {
	case Success:
		return nil
	case NotReady:
		return errNotReady
	}
	return d.newError(s, r)
}

// newError is the error of a call that returned r.
func (d *Driver) newError(s Symbol, r Result) *Error {
	t := d.describe(r)
	return &Error{Call: s.String(), Result: r, Name: t.name, Text: t.text, Hint: hints[r]}
}

// describe asks the driver for its own name and text of a result.
func (d *Driver) describe(r Result) resultText {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, ok := d.texts[r]; ok {
		return t
	}
	t := resultText{name: d.resultString(SymGetErrorName, r), text: d.resultString(SymGetErrorString, r)}
	if t.name == "" {
		t.name = r.String()
	}
	d.texts[r] = t
	return t
}

// hints say what a user can do about a result. Results that mean a mistake
// in the program have none: their text says it.
var hints = map[Result]string{
	OutOfMemory:           "free memory, ask for less, or end other programs on the GPU (nvidia-smi lists them)",
	NoDevice:              "check nvidia-smi, and that CUDA_VISIBLE_DEVICES and the container let this process see a GPU",
	InvalidImage:          "the image is neither PTX nor a cubin",
	NoBinaryForGPU:        "the image holds no code for this GPU: build it for the GPU's compute capability, or ship PTX",
	ECCUncorrectable:      "the GPU's memory had an error: check nvidia-smi -q and the kernel log for Xid messages, and restart the program",
	InvalidPTX:            "print the error with %+v for the compiler's log",
	NVLinkUncorrectable:   "check nvidia-smi nvlink -e and the kernel log for Xid messages, and restart the program",
	UnsupportedPTXVersion: "the PTX is newer than the driver: update the driver, or build for an older PTX version",
	LaunchOutOfResources:  "the block's registers (those of a thread x its threads) or its shared memory are more than there are, or the parameters longer than the kernel's: use a smaller block",
	IllegalAddress:        "a kernel or copy used an address outside its memory: compute-sanitizer finds it; restart the program",
	SystemNotReady:        "on an NVSwitch machine, start nvidia-fabricmanager",
	SystemDriverMismatch:  "the kernel module and the library differ: reload the module or restart the machine",
}
