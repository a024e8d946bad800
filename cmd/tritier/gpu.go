package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/gpuinfo"
	"github.com/tritier/tritier/internal/units"
)

// openCUDA loads the driver. Tests put a software GPU in its place.
var openCUDA = cuda.Open

// gpuHelp says how a GPU is named, for the help of every command.
const gpuHelp = `A GPU is named by its number (0), its UUID or the start of one (GPU-5c...), or its PCI
address (0000:01:00.0). "tritier doctor" lists what there is.`

// allGPUs is the name that means every GPU.
const allGPUs = "all"

// namedGPUs finds the GPU of that name, or all of them.
func namedGPUs(command, name string) ([]*cuda.Device, error) {
	d, err := openCUDA()
	if err != nil {
		return nil, fmt.Errorf("%s needs an NVIDIA GPU: %w; tritier doctor says more", command, err)
	}
	if name == allGPUs {
		list, err := d.Devices()
		if err != nil {
			return nil, fmt.Errorf("%s needs an NVIDIA GPU: %w; tritier doctor says more", command, err)
		}
		return list, nil
	}
	dev, err := d.Device(name)
	if err != nil {
		return nil, fmt.Errorf("--gpu: %w", err)
	}
	return []*cuda.Device{dev}, nil
}

// inContext runs use in the primary context of a GPU.
func inContext(dev *cuda.Device, use func(*cuda.Context) error) (err error) {
	c, err := dev.Retain()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return use(c)
}

// pcieState is a GPU's link: as it runs, and the best that GPU and slot can do.
type pcieState struct {
	Now  *gpuinfo.Link `json:"now"` // null when not known
	Best *gpuinfo.Link `json:"best"`
}

func (s pcieState) String() string {
	switch {
	case s.Now == nil && s.Best == nil:
		return "PCIe link not known"
	case s.Now == nil:
		return "PCIe up to " + s.Best.String()
	case s.Best == nil || *s.Best == *s.Now:
		return "PCIe " + s.Now.String()
	}
	return fmt.Sprintf("PCIe %s (can be %s)", s.Now, s.Best)
}

// pcieTimeout bounds the question: a management library that hangs must not
// hold a measurement up.
const pcieTimeout = 5 * time.Second

// pcieLink asks for the link of the GPU at a PCI address. Idle GPUs slow it
// down, so that it is to be asked right after a copy. Tests replace it.
var pcieLink = func(ctx context.Context, address string) (s pcieState) {
	ctx, cancel := context.WithTimeout(ctx, pcieTimeout)
	defer cancel()
	r := gpuinfo.Open()
	defer r.Close() //nolint:errcheck // it was only read from
	info, err := r.Query(ctx, address)
	if err != nil {
		return s // the report says that it is not known
	}
	if info.Current.Known() {
		s.Now = &info.Current.Value
	}
	if info.Max.Known() {
		s.Best = &info.Max.Value
	}
	return s
}

// gpuIdentity names a GPU in JSON.
type gpuIdentity struct {
	Ordinal int    `json:"ordinal"`
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	PCI     string `json:"pci"`
}

func gpuIdentityOf(d *cuda.Device) gpuIdentity {
	return gpuIdentity{d.Ordinal(), d.Name(), d.UUID(), d.PCIAddress()}
}

// gpuLine names a GPU and its driver in one line.
func gpuLine(d *cuda.Device) string {
	return fmt.Sprintf("%s, %s, %s, CUDA %s", d, d.UUID(), d.PCIAddress(), d.Driver().Version())
}

// Memory to copy between: less leaves nothing to scatter, and a whole number of
// the largest pages in each half.
const (
	leastCopyBytes = 8 << 20
	mostCopyBytes  = 64 << 30
	copyBytesUnit  = 4 << 20
)

// checkCopyFlags reports a flag that is out of range, of those that the
// commands that copy have in common.
func checkCopyFlags(runs int, size units.Bytes) error {
	if runs < 1 || runs > 1000 {
		return fmt.Errorf("--runs %d is not from 1 to 1000", runs)
	}
	if size < leastCopyBytes || size > mostCopyBytes || size%copyBytesUnit != 0 {
		return fmt.Errorf("--bytes %s is not a multiple of %s from %s to %s", units.ExactBytes(uint64(size)),
			units.ExactBytes(copyBytesUnit), units.ExactBytes(leastCopyBytes), units.ExactBytes(mostCopyBytes))
	}
	return nil
}

// noArguments is the Args check of a command that takes flags alone.
func noArguments(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%s takes no argument, not %q", name, args[0])
		}
		return nil
	}
}

// shortBytes writes a page size.
func shortBytes(n int) string { return units.ExactBytes(uint64(n)) }
