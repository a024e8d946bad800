package timed

import (
	"testing"

	"github.com/tritier/tritier/internal/servicetime"
)

// TestNoCommandIsQuickerInAQueue: a drive's units are shared by the commands that
// are outstanding, but each command has one of them for as long as it would alone.
// Charging only the share let two drives with three in flight beat three drives.
func TestNoCommandIsQuickerInAQueue(t *testing.T) {
	m := *preset(t, "1x980pro")
	read := &m.Drives.Read
	read.LatencyNS, read.LatencySigma, read.IOPS = figure(100), nil, nil
	read.ControllerNS, read.ControllerUnits = optional(157.5), optional(8)
	read.Bandwidth, read.Concurrency = figure(252e6), figure(2)
	m.Initiator = &servicetime.Initiator{CostNS: figure(2561.5), Threads: figure(2)}
	l := Load{InFlight: 3, Size: 512, Requests: 3000, Drives: 3}
	three := measure(t, &m, l)
	l.Drives = 2
	if two := measure(t, &m, l); two.IOPS > three.IOPS*1.001 {
		t.Errorf("3 in flight: %.0f IOPS of two drives, %.0f of three", two.IOPS, three.IOPS)
	}
}
