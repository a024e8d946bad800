package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/raw"
)

// driveHelp says how a drive is named, for the help of every subcommand.
const driveHelp = `DRIVE is one of
  mem:SIZE                 a software drive over memory, such as mem:1GiB
  file:PATH[?size=SIZE]    a software drive over a file or block device
  nvme:PCI-ADDRESS         a raw drive through VFIO, such as nvme:0000:01:00.0
and mem: and file: take ?block=SIZE, the block size.`

func newNVMeCommand() *cobra.Command {
	c := newGroup(&cobra.Command{
		Use:   "nvme",
		Short: "Find, describe and measure NVMe drives, real ones and software ones",
		Long: `Find, describe and measure NVMe drives with tritier's own user-space driver.

` + driveHelp + `

A raw drive must be bound to vfio-pci (--bind does so, for as long as the command runs) and
is the kernel's no more meanwhile. Only "bench" ever writes, and to something that exists
only with --write.`,
		Example: `  tritier nvme list
  tritier nvme identify nvme:0000:01:00.0 --bind
  tritier nvme smart nvme:0000:01:00.0
  tritier nvme bench mem:1GiB`,
	})
	c.AddCommand(newNVMeListCommand(), newNVMeIdentifyCommand(), newNVMeSMARTCommand(), newNVMeDumpCommand(), newNVMeBenchCommand())
	return c
}

// driveFlags are the options that say how a raw drive is reached.
type driveFlags struct {
	bind, force           bool
	unsafeRaw, unsafeNoMM bool
}

func (f *driveFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.bind, "bind", false, "nvme: take the drive from the kernel's driver, and give it back at the end (needs root; refused when it holds data)")
	fs.BoolVar(&f.force, "force", false, "go on although the drive holds data, which may be lost")
	fs.BoolVar(&f.unsafeRaw, "unsafe-raw", false, "nvme: reach the drive without VFIO and IOMMU; a faulty drive or a crash can then corrupt any memory of this machine")
	fs.BoolVar(&f.unsafeNoMM, "unsafe-noiommu", false, "nvme: VFIO without an IOMMU; the same risk")
}

// options are the flags as the library takes them. What they risk is said on w.
func (f *driveFlags) options(w io.Writer) (drive.Options, error) {
	if f.unsafeRaw && f.unsafeNoMM {
		return drive.Options{}, errors.New("--unsafe-raw and --unsafe-noiommu exclude each other: give one of them")
	}
	if f.unsafeRaw || f.unsafeNoMM {
		if _, err := fmt.Fprintln(w, "tritier: warning: "+raw.Warning); err != nil {
			return drive.Options{}, err
		}
	}
	return drive.Options{Bind: f.bind, Force: f.force, UnsafeRaw: f.unsafeRaw, UnsafeNoIOMMU: f.unsafeNoMM}, nil
}

// oneDrive is the Args check of a command that takes a single drive.
func oneDrive(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("nvme %s takes one drive, not %d; a drive is %s", name, len(args), drive.Forms)
		}
		us, err := drive.ParseList(args[0])
		if err == nil && len(us) != 1 {
			return fmt.Errorf("nvme %s takes one drive; %s names %d", name, args[0], len(us))
		}
		return err
	}
}

// withDrive opens a drive for reading, brings it up, and closes it after use.
func (f *driveFlags) withDrive(c *cobra.Command, uri string, use func(d *drive.Drive) error) (err error) {
	o, err := f.options(c.ErrOrStderr())
	if err != nil {
		return err
	}
	// Ctrl-C must not end a software drive's threads while the driver waits for
	// them; each step is short, and bounded by the driver's deadlines.
	d, err := drive.Open(context.WithoutCancel(c.Context()), uri, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := use(d); err != nil {
		return err
	}
	return c.Context().Err()
}

// writeJSON writes one indented document.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// sheet writes names and values in two columns.
type sheet struct{ w *tabwriter.Writer }

func newSheet(out io.Writer) sheet { return sheet{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)} }

func (s sheet) row(name, format string, args ...any) {
	_, _ = fmt.Fprintf(s.w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // Flush reports it
}

// bitNames are the names of the bits that are set; bits without a name come out as numbers.
func bitNames[T ~uint8 | ~uint16](v T, names map[int]string) []string {
	out := []string{}
	for i := range 16 {
		if uint64(v)>>i&1 == 0 {
			continue
		}
		n, ok := names[i]
		if !ok {
			n = fmt.Sprintf("bit %d", i)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// orNone stands in for an empty list.
func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
