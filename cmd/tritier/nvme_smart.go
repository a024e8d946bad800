package main

import (
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
)

// dataUnit is the unit of the SMART log's data counters: a thousand blocks of 512 bytes.
const dataUnit = 512_000

// criticalWarnings are the bits of the SMART log's first byte.
var criticalWarnings = map[int]string{
	0: "spare capacity below its threshold", 1: "temperature outside its thresholds", 2: "reliability degraded by errors",
	3: "read-only", 4: "volatile memory backup failed", 5: "persistent memory read-only or unreliable",
}

func newNVMeSMARTCommand() *cobra.Command {
	var flags driveFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "smart DRIVE",
		Short: "Show a drive's health: SMART log and newest errors",
		Long: `Show a drive's health: its SMART log with units, and the newest entries of its error
log. Nothing is written.

` + driveHelp,
		Example: `  tritier nvme smart nvme:0000:01:00.0 --bind
  tritier nvme smart nvme:0000:01:00.0 --json | jq .percentage_used
  tritier nvme smart file:/data/disk`,
		Args: oneDrive("smart"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.withDrive(c, args[0], func(d *drive.Drive) error {
				h, err := healthOf(d)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(c.OutOrStdout(), h)
				}
				return h.print(c.OutOrStdout())
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "JSON instead of text")
	flags.register(c.Flags())
	return c
}

// health is what nvme smart says.
type health struct {
	Drive            string        `json:"drive"`
	Serial           string        `json:"serial"`
	Warnings         []string      `json:"critical_warnings"`
	TemperatureC     *int          `json:"temperature_celsius"` // null when not reported
	AvailableSpare   int           `json:"available_spare_percent"`
	SpareThreshold   int           `json:"spare_threshold_percent"`
	PercentageUsed   int           `json:"percentage_used"`
	BytesRead        uint64        `json:"bytes_read"`
	BytesWritten     uint64        `json:"bytes_written"`
	HostReads        uint64        `json:"read_commands"`
	HostWrites       uint64        `json:"write_commands"`
	BusyMinutes      uint64        `json:"busy_minutes"`
	PowerCycles      uint64        `json:"power_cycles"`
	PowerOnHours     uint64        `json:"power_on_hours"`
	UnsafeShutdowns  uint64        `json:"unsafe_shutdowns"`
	MediaErrors      uint64        `json:"media_errors"`
	ErrorLogEntries  uint64        `json:"error_log_entries"`
	NewestErrors     []loggedError `json:"newest_errors"`
	BytesAreSaturate bool          `json:"byte_counts_saturated"` // they do not fit 64 bits
}

// loggedError is an entry of the error log.
type loggedError struct {
	Number    uint64 `json:"number"`
	Queue     uint16 `json:"queue"`
	CommandID uint16 `json:"command_id"`
	Status    string `json:"status"`
	Namespace uint32 `json:"namespace"`
	LBA       uint64 `json:"lba"`
}

// newestErrors bounds the entries of the error log that are shown.
const newestErrors = 8

func healthOf(d *drive.Drive) (health, error) {
	s, err := d.Controller.SMART()
	if err != nil {
		return health{}, fmt.Errorf("%s: SMART log: %w", d.URI, err)
	}
	log, err := d.Controller.ErrorLog(newestErrors)
	if err != nil {
		return health{}, fmt.Errorf("%s: error log: %w", d.URI, err)
	}
	return decodeHealth(d.URI.String(), d.Controller.Info().Serial, s, log), nil
}

func decodeHealth(uri, serial string, s libnvm.SMART, log []libnvm.ErrorEntry) health {
	h := health{
		Drive: uri, Serial: serial, Warnings: bitNames(s.CriticalWarning, criticalWarnings),
		AvailableSpare: s.AvailableSpare, SpareThreshold: s.SpareThreshold, PercentageUsed: s.PercentageUsed,
		HostReads: s.HostReads, HostWrites: s.HostWrites, BusyMinutes: s.BusyMinutes, PowerCycles: s.PowerCycles, PowerOnHours: s.PowerOnHours,
		UnsafeShutdowns: s.UnsafeShutdowns, MediaErrors: s.MediaErrors, ErrorLogEntries: s.ErrorLogEntries, NewestErrors: []loggedError{},
	}
	if s.Temperature > 0 {
		c := s.Temperature - 273 // the log counts whole kelvins
		h.TemperatureC = &c
	}
	var over [2]bool
	h.BytesRead, over[0] = dataBytes(s.DataUnitsRead)
	h.BytesWritten, over[1] = dataBytes(s.DataUnitsWritten)
	h.BytesAreSaturate = over[0] || over[1]
	for _, e := range log {
		h.NewestErrors = append(h.NewestErrors, loggedError{e.Count, e.Queue, e.CID, e.Status.String(), e.NSID, e.LBA})
	}
	return h
}

// dataBytes turns the log's data units into bytes, or says that they do not fit.
func dataBytes(n uint64) (uint64, bool) {
	hi, lo := bits.Mul64(n, dataUnit)
	if hi != 0 {
		return math.MaxUint64, true
	}
	return lo, false
}

func (h *health) print(out io.Writer) error {
	s := newSheet(out)
	s.row("drive", "%s, serial %s", h.Drive, h.Serial)
	s.row("critical warnings", "%s", orNone(strings.Join(h.Warnings, "; ")))
	if h.TemperatureC != nil {
		s.row("temperature", "%d °C", *h.TemperatureC)
	} else {
		s.row("temperature", "not reported")
	}
	s.row("available spare", "%d %% (threshold %d %%)", h.AvailableSpare, h.SpareThreshold)
	s.row("endurance used", "%d %%", h.PercentageUsed)
	more := ""
	if h.BytesAreSaturate {
		more = ", or more"
	}
	s.row("data read", "%s%s", units.FormatBytes(h.BytesRead), more)
	s.row("data written", "%s%s", units.FormatBytes(h.BytesWritten), more)
	s.row("read commands", "%s", units.FormatCount(h.HostReads))
	s.row("write commands", "%s", units.FormatCount(h.HostWrites))
	s.row("busy", "%s", minutes(h.BusyMinutes))
	s.row("powered on", "%s h", units.FormatCount(h.PowerOnHours))
	s.row("power cycles", "%s", units.FormatCount(h.PowerCycles))
	s.row("unsafe shutdowns", "%s", units.FormatCount(h.UnsafeShutdowns))
	s.row("media errors", "%s", units.FormatCount(h.MediaErrors))
	s.row("error log entries", "%s", units.FormatCount(h.ErrorLogEntries))
	for _, e := range h.NewestErrors {
		s.row(fmt.Sprintf("  error %d", e.Number), "%s (queue %d, command %#04x, namespace %d, LBA %d)", e.Status, e.Queue, e.CommandID, e.Namespace, e.LBA)
	}
	return s.w.Flush()
}

// minutes writes a count of minutes that may be larger than a Duration holds.
func minutes(n uint64) string {
	if n > uint64(math.MaxInt64/time.Minute) {
		return units.FormatCount(n) + " min"
	}
	return units.FormatDuration(time.Duration(n) * time.Minute)
}
