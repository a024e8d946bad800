package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
)

func newNVMeDumpCommand() *cobra.Command {
	var flags driveFlags
	c := &cobra.Command{
		Use:   "dump DRIVE",
		Short: "Show a drive's registers as they are, then try it and show its queues",
		Long: `Show a drive's registers before anything has touched them, then bring it up, read one
block of each namespace, and show the registers and queues that this leaves: positions,
phases, command ids and the last completions. A drive that does not come up is shown as
far as it came, and the exit status is 1. Nothing is written.

` + driveHelp,
		Example: `  tritier nvme dump nvme:0000:01:00.0 --bind
  tritier nvme dump mem:1MiB`,
		Args: oneDrive("dump"),
		RunE: func(c *cobra.Command, args []string) error { return flags.dump(c, args[0]) },
	}
	flags.register(c.Flags())
	return c
}

func (f *driveFlags) dump(c *cobra.Command, uri string) (err error) {
	o, err := f.options(c.ErrOrStderr())
	if err != nil {
		return err
	}
	d, err := drive.Attach(context.WithoutCancel(c.Context()), uri, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	out := c.OutOrStdout()
	if err := printRegisters(out, d); err != nil {
		return err
	}
	if err := d.BringUp(); err != nil {
		return err
	}
	queue, tryErr := tryDrive(d)
	if _, err := fmt.Fprintln(out, "after bring-up and one read of each namespace:"); err != nil {
		return err
	}
	err = errors.Join(tryErr, d.Controller.Dump(out))
	if queue != nil {
		err = errors.Join(err, queue.Close())
	}
	return err
}

// tryDrive reads the first block of each namespace through a queue pair, which it returns still open.
func tryDrive(d *drive.Drive) (*libnvm.QueuePair, error) {
	all, err := d.Controller.Namespaces()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.URI, err)
	}
	q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: min(8, d.Controller.MaxDepth())})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.URI, err)
	}
	for _, ns := range all {
		mem, err := d.Transport.Alloc(ns.BlockSize)
		if err == nil {
			err = q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: 1, Mem: mem})
			err = errors.Join(err, mem.Free())
		}
		if err != nil {
			return q, fmt.Errorf("%s: reading a block of namespace %d: %w", d.URI, ns.ID, err)
		}
	}
	return q, nil
}

// printRegisters shows the properties as they were found, and decodes those
// that say what state the controller was left in.
func printRegisters(out io.Writer, d *drive.Drive) error {
	s := newSheet(out)
	r := &d.Found
	s.row("drive", "%s: %s", d.URI, d.Describe())
	if r.UnreachableByBus {
		s.row("registers", "all ones: the device is gone, without power, or its link is down")
		return s.w.Flush()
	}
	onOff := func(v bool, yes, no string) string {
		if v {
			return yes
		}
		return no
	}
	s.row("CAP", "%#016x: queues of up to %d entries, doorbells every %d bytes, ready within %g s, pages of %d to %d bytes", r.CAP,
		r.CAP&0xffff+1, 4<<(r.CAP>>32&0xf), float64(r.CAP>>24&0xff)/2, 4096<<(r.CAP>>48&0xf), 4096<<(r.CAP>>52&0xf))
	s.row("VS", "%#08x: NVMe %s", r.VS, version(r.VS))
	s.row("CC", "%#08x: %s, shutdown notification %d", r.CC, onOff(r.CC&1 != 0, "enabled", "disabled"), r.CC>>14&3)
	s.row("CSTS", "%#08x: %s%s, shutdown status %d", r.CSTS, onOff(r.CSTS&1 != 0, "ready", "not ready"),
		onOff(r.CSTS&2 != 0, ", FATAL STATUS", ""), r.CSTS>>2&3)
	if r.AQA == 0 { // zero-based: it would say queues of one entry, which are not allowed
		s.row("AQA", "%#08x: not set", r.AQA)
	} else {
		s.row("AQA", "%#08x: admin queues of %d and %d entries", r.AQA, r.AQA&0xfff+1, r.AQA>>16&0xfff+1)
	}
	s.row("ASQ, ACQ", "%#x, %#x", r.ASQ, r.ACQ)
	s.row("CMBLOC, CMBSZ", "%#08x, %#08x", r.CMBLOC, r.CMBSZ)
	s.row("BAR0", "%d bytes", r.BytesInBAR0)
	return s.w.Flush()
}
