package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
)

// Names of the bits of Identify Controller's OACS and ONCS (NVMe base
// specification 2.0, figure 275).
var (
	adminCommands = map[int]string{
		0: "Security", 1: "Format NVM", 2: "Firmware", 3: "Namespace Management", 4: "Device Self-test", 5: "Directives",
		6: "NVMe-MI", 7: "Virtualization Management", 8: "Doorbell Buffer Config", 9: "Get LBA Status", 10: "Lockdown",
	}
	ioCommands = map[int]string{
		0: "Compare", 1: "Write Uncorrectable", 2: "Dataset Management", 3: "Write Zeroes", 4: "Save in features",
		5: "Reservations", 6: "Timestamp", 7: "Verify", 8: "Copy",
	}
)

func newNVMeIdentifyCommand() *cobra.Command {
	var flags driveFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "identify DRIVE",
		Short: "Describe a drive: controller, limits, namespaces, block formats",
		Long: `Describe a drive by its identify data and its registers: controller, limits of commands
and queues, namespaces and the block formats that they could have. Nothing is written.

` + driveHelp,
		Example: `  tritier nvme identify mem:1GiB
  tritier nvme identify nvme:0000:01:00.0 --bind
  tritier nvme identify file:/data/disk --json | jq .limits`,
		Args: oneDrive("identify"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.withDrive(c, args[0], func(d *drive.Drive) error {
				id, err := identityOf(d)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(c.OutOrStdout(), id)
				}
				return id.print(c.OutOrStdout())
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "JSON instead of text")
	flags.register(c.Flags())
	return c
}

// driveIdentity is what nvme identify says.
type driveIdentity struct {
	Drive      string             `json:"drive"`
	Reached    string             `json:"reached"`
	Controller controllerIdentity `json:"controller"`
	Limits     driveLimits        `json:"limits"`
	Namespaces []namespaceInfo    `json:"namespaces"`
}

type controllerIdentity struct {
	Model         string   `json:"model"`
	Serial        string   `json:"serial"`
	Firmware      string   `json:"firmware"`
	VendorID      string   `json:"vendor_id"`
	ControllerID  uint16   `json:"controller_id"`
	Version       string   `json:"nvme_version"`
	NQN           string   `json:"nqn,omitempty"`
	Capacity      uint64   `json:"total_capacity_bytes,omitempty"` // 0: not reported
	WarningC      *int     `json:"warning_temperature_celsius,omitempty"`
	CriticalC     *int     `json:"critical_temperature_celsius,omitempty"`
	VolatileCache bool     `json:"volatile_write_cache"`
	AdminCommands []string `json:"optional_admin_commands"`
	IOCommands    []string `json:"optional_io_commands"`
}

type driveLimits struct {
	MDTS           int    `json:"mdts_bytes"`         // 0: no limit
	MaxTransfer    int    `json:"max_transfer_bytes"` // of one command, as the driver uses it
	MQES           int    `json:"max_queue_entries"`
	Queues         int    `json:"io_queue_pairs"`
	Namespaces     uint32 `json:"max_namespaces"`
	DoorbellStride int    `json:"doorbell_stride_bytes"`
	ReadyTimeoutMS int    `json:"ready_timeout_ms"`
	MinPage        int    `json:"min_page_bytes"`
	MaxPage        int    `json:"max_page_bytes"`
	CMBBytes       int    `json:"controller_memory_buffer_bytes"`
	Aborts         int    `json:"aborts_at_once"`
	Events         int    `json:"async_events_at_once"`
	ErrorEntries   int    `json:"error_log_entries"`
}

type namespaceInfo struct {
	ID        uint32       `json:"id"`
	Blocks    uint64       `json:"blocks"`
	BlockSize int          `json:"block_bytes"`
	Bytes     uint64       `json:"bytes"`
	Used      uint64       `json:"used_blocks"`
	Format    int          `json:"format"`
	Formats   []formatInfo `json:"formats"`
	EUI64     string       `json:"eui64,omitempty"`
	NGUID     string       `json:"nguid,omitempty"`
	Unusable  string       `json:"unusable,omitempty"` // why the driver cannot use it
}

type formatInfo struct {
	BlockSize   int   `json:"block_bytes"` // 0: not available
	Metadata    int   `json:"metadata_bytes"`
	Performance uint8 `json:"performance"` // 0 best to 3 worst
}

func identityOf(d *drive.Drive) (*driveIdentity, error) {
	c := d.Controller
	raw, err := c.Identify(1, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: Identify Controller: %w", d.URI, err)
	}
	id := &driveIdentity{
		Drive: d.URI.String(), Reached: d.Describe(), Controller: decodeController(c.Info(), raw), Limits: decodeLimits(d.Found.CAP, raw),
		Namespaces: []namespaceInfo{},
	}
	info := c.Info()
	l := &id.Limits
	l.MaxTransfer, l.Queues, l.Namespaces, l.CMBBytes = c.MaxTransfer(), c.QueueLimit(), info.MaxNamespaces, c.CMBBytes()
	l.Aborts, l.Events, l.ErrorEntries = info.AbortLimit, info.EventLimit, info.ErrorEntries
	ids, err := c.NamespaceIDs()
	if err != nil {
		return nil, fmt.Errorf("%s: namespaces: %w", d.URI, err)
	}
	for _, n := range ids {
		ns, err := namespaceOf(c, n)
		if err != nil {
			return nil, fmt.Errorf("%s: namespace %d: %w", d.URI, n, err)
		}
		id.Namespaces = append(id.Namespaces, ns)
	}
	return id, nil
}

func decodeController(i libnvm.ControllerInfo, raw []byte) controllerIdentity {
	le := binary.LittleEndian
	c := controllerIdentity{
		Model: i.Model, Serial: i.Serial, Firmware: i.Firmware, VendorID: fmt.Sprintf("%#04x", i.VendorID), ControllerID: i.ControllerID,
		Version: version(i.Version), NQN: i.NQN, VolatileCache: i.VolatileCache,
		AdminCommands: bitNames(i.OACS, adminCommands), IOCommands: bitNames(i.ONCS, ioCommands),
		WarningC: celsius(le.Uint16(raw[266:])), CriticalC: celsius(le.Uint16(raw[268:])), Capacity: le.Uint64(raw[280:]),
	}
	if le.Uint64(raw[288:]) != 0 {
		c.Capacity = math.MaxUint64
	}
	return c
}

// version is the register VS in words.
func version(v uint32) string {
	s := fmt.Sprintf("%d.%d", v>>16, v>>8&0xff)
	if t := v & 0xff; t != 0 {
		s += fmt.Sprintf(".%d", t)
	}
	return s
}

// celsius converts the specification's whole kelvins; 0 is not reported.
func celsius(kelvin uint16) *int {
	if kelvin == 0 {
		return nil
	}
	c := int(kelvin) - 273
	return &c
}

// decodeLimits reads CAP (3.1.3.1) and MDTS, which counts in pages of CAP.MPSMIN.
func decodeLimits(capability uint64, raw []byte) driveLimits {
	l := driveLimits{
		MQES: int(capability&0xffff) + 1, DoorbellStride: 4 << (capability >> 32 & 0xf), ReadyTimeoutMS: int(capability>>24&0xff) * 500,
		MinPage: 4096 << (capability >> 48 & 0xf), MaxPage: 4096 << (capability >> 52 & 0xf),
	}
	if m := raw[77]; m > 0 && m < 32 {
		l.MDTS = l.MinPage << m
	}
	return l
}

// namespaceOf describes a namespace, also one that the driver cannot use.
func namespaceOf(c *libnvm.Controller, id uint32) (namespaceInfo, error) {
	raw, err := c.Identify(0, id, 0)
	if err != nil {
		return namespaceInfo{}, err
	}
	x := namespaceInfo{ID: id, Used: binary.LittleEndian.Uint64(raw[16:]), Formats: []formatInfo{}}
	ns, err := c.Namespace(id)
	var unsupported *libnvm.UnsupportedError
	if errors.As(err, &unsupported) {
		x.Blocks, x.Unusable = binary.LittleEndian.Uint64(raw), err.Error()
		return x, nil
	}
	if err != nil {
		return x, err
	}
	x.Blocks, x.BlockSize, x.Bytes, x.Format, x.EUI64, x.NGUID = ns.Blocks, ns.BlockSize, ns.Bytes(), ns.Format, ns.EUI64, ns.NGUID
	for _, f := range ns.Formats {
		x.Formats = append(x.Formats, formatInfo{f.BlockSize, f.MetadataBytes, f.Performance})
	}
	return x, nil
}

func (id *driveIdentity) print(out io.Writer) error {
	s := newSheet(out)
	c, l := &id.Controller, &id.Limits
	s.row("drive", "%s", id.Drive)
	s.row("reached", "%s", id.Reached)
	s.row("model", "%s", c.Model)
	s.row("serial", "%s", c.Serial)
	s.row("firmware", "%s", c.Firmware)
	s.row("vendor", "%s, controller %d", c.VendorID, c.ControllerID)
	s.row("NVMe version", "%s", c.Version)
	s.row("name", "%s", orNone(c.NQN))
	if c.Capacity > 0 {
		s.row("capacity", "%s", units.FormatBytes(c.Capacity))
	}
	if c.WarningC != nil {
		s.row("warning above", "%d °C", *c.WarningC)
	}
	if c.CriticalC != nil {
		s.row("critical above", "%d °C", *c.CriticalC)
	}
	s.row("write cache", "%s", map[bool]string{true: "volatile: writes are durable after a flush", false: "none that is volatile"}[c.VolatileCache])
	s.row("admin commands", "%s", orNone(strings.Join(c.AdminCommands, ", ")))
	s.row("I/O commands", "%s", orNone(strings.Join(c.IOCommands, ", ")))
	mdts := "no limit"
	if l.MDTS > 0 {
		mdts = units.ExactBytes(uint64(l.MDTS))
	}
	s.row("transfer (MDTS)", "%s; the driver sends up to %s in a command", mdts, units.ExactBytes(uint64(l.MaxTransfer)))
	s.row("queue entries (MQES)", "%s", units.FormatCount(uint64(l.MQES)))
	s.row("queue pairs", "%s granted", units.FormatCount(uint64(l.Queues)))
	s.row("doorbell stride", "%s", units.ExactBytes(uint64(l.DoorbellStride)))
	s.row("pages (MPS)", "%s to %s", units.ExactBytes(uint64(l.MinPage)), units.ExactBytes(uint64(l.MaxPage)))
	s.row("ready within", "%g s", float64(l.ReadyTimeoutMS)/1000)
	s.row("memory buffer", "%s", units.FormatBytes(uint64(l.CMBBytes)))
	s.row("at once", "%d aborts, %d event requests", l.Aborts, l.Events)
	for i := range id.Namespaces {
		id.Namespaces[i].print(s)
	}
	return s.w.Flush()
}

func (n *namespaceInfo) print(s sheet) {
	name := fmt.Sprintf("namespace %d", n.ID)
	if n.Unusable != "" {
		s.row(name, "cannot be used: %s", n.Unusable)
		return
	}
	s.row(name, "%s, %s blocks of %s, %s in use", units.FormatBytes(n.Bytes), units.FormatCount(n.Blocks), units.ExactBytes(uint64(n.BlockSize)), units.FormatCount(n.Used))
	for i, f := range n.Formats {
		text := "not available"
		if f.BlockSize > 0 {
			text = fmt.Sprintf("blocks of %s, %s of metadata, performance %d (0 is best)", units.ExactBytes(uint64(f.BlockSize)), units.ExactBytes(uint64(f.Metadata)), f.Performance)
		}
		if i == n.Format {
			text += ", in use"
		}
		s.row(fmt.Sprintf("  format %d", i), "%s", text)
	}
	if n.NGUID != "" {
		s.row("  NGUID", "%s", n.NGUID)
	}
	if n.EUI64 != "" {
		s.row("  EUI64", "%s", n.EUI64)
	}
}
