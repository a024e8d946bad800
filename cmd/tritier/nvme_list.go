package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/vfio"
	vfiodrive "github.com/tritier/tritier/libnvm/vfio"
)

func newNVMeListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the NVMe drives on the PCI bus, and whether tritier could use them",
		Long: `List the NVMe drives on the PCI bus, what they are in use for, and whether tritier could
use them through VFIO. Nothing is opened for writing and nothing changes. Model and serial
number are known while the kernel's driver has a drive; "identify" reads them otherwise.`,
		Example: `  tritier nvme list
  tritier nvme list --json | jq -r '.drives[] | select(.usable) | .address'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("nvme list takes no argument, not %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			probe := func(address string) error { return vfio.Probe(vfio.Kernel(), address) }
			list, err := listDrives(pci.Host(), probe)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), map[string]any{"drives": list})
			}
			return printDrives(c.OutOrStdout(), list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "JSON instead of text")
	return c
}

// listedDrive is one drive as nvme list shows it.
type listedDrive struct {
	Address    string   `json:"address"`
	PCIID      string   `json:"pci_id"`
	Model      string   `json:"model,omitempty"`
	Serial     string   `json:"serial,omitempty"`
	Driver     string   `json:"driver,omitempty"`
	IOMMUGroup string   `json:"iommu_group,omitempty"`
	NUMANode   *int     `json:"numa_node"` // null when not known
	Disks      []string `json:"disks"`
	InUse      []string `json:"in_use"` // reasons why the kernel keeps it
	Usable     bool     `json:"usable"` // through VFIO, as things are now
	Advice     string   `json:"advice"` // what to do, or how to name it
}

// listDrives looks at every NVMe drive of a machine. probe says what keeps a
// function from VFIO, whoever has it now.
func listDrives(tree pci.Tree, probe func(address string) error) ([]listedDrive, error) {
	found, err := tree.NVMe()
	if err != nil {
		return nil, err
	}
	list := []listedDrive{} // not null in JSON
	for _, f := range found {
		d := listedDrive{
			Address: f.Address, PCIID: fmt.Sprintf("%04x:%04x", f.Vendor, f.Device), Model: f.Model, Serial: f.Serial,
			Driver: f.Driver, IOMMUGroup: f.Group, Disks: append([]string{}, f.Disks...), InUse: []string{},
		}
		if f.NUMANode >= 0 {
			d.NUMANode = &f.NUMANode
		}
		uses, err := tree.Uses(f)
		if err != nil {
			return nil, err
		}
		for _, u := range uses {
			d.InUse = append(d.InUse, u.String())
		}
		d.Usable, d.Advice = advice(d, probe(f.Address))
		list = append(list, d)
	}
	return list, nil
}

// advice says whether a drive can be used as things are, and what to do.
func advice(d listedDrive, obstacle error) (usable bool, text string) {
	switch {
	case len(d.InUse) > 0:
		return false, "leave it to the kernel, or unmount and wipe it (wipefs) and then use --bind"
	case obstacle != nil:
		return false, oneLine(obstacle)
	case d.Driver == vfiodrive.Driver:
		return true, "use nvme:" + d.Address
	}
	return false, "free: use nvme:" + d.Address + " with --bind, as root"
}

func printDrives(out io.Writer, list []listedDrive) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no NVMe drive on the PCI bus of this machine; mem:SIZE and file:PATH work everywhere")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ADDRESS\tMODEL\tSERIAL\tDRIVER\tIOMMU GROUP\tNUMA\tDISKS\tUSABLE") // Flush reports it
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for _, d := range list {
		node, usable, model := "-", "no", d.Model
		if d.NUMANode != nil {
			node = fmt.Sprint(*d.NUMANode)
		}
		if d.Usable {
			usable = "yes"
		}
		if model == "" {
			model = "(" + d.PCIID + ")"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Address, model, dash(d.Serial), dash(d.Driver),
			dash(d.IOMMUGroup), node, dash(strings.Join(d.Disks, ",")), usable)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, d := range list {
		s := d.Address + ": " + d.Advice
		if len(d.InUse) > 0 {
			s = d.Address + ": in use: " + strings.Join(d.InUse, "; ") + ": " + d.Advice
		}
		if _, err := fmt.Fprintln(out, s); err != nil {
			return err
		}
	}
	return nil
}
