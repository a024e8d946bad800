package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/libnvm"
)

func TestDecodeHealth(t *testing.T) {
	h := decodeHealth("nvme:x", "S1", libnvm.SMART{
		CriticalWarning: 1<<1 | 1<<7, Temperature: 310, AvailableSpare: 90, SpareThreshold: 10, PercentageUsed: 130,
		DataUnitsRead: 3, DataUnitsWritten: math.MaxUint64, BusyMinutes: 90, PowerOnHours: 12345,
	}, []libnvm.ErrorEntry{{Count: 9, Queue: 2, CID: 7, Status: libnvm.StatusUnrecoveredRead, LBA: 55, NSID: 1}})
	var out bytes.Buffer
	if err := h.print(&out); err != nil {
		t.Fatal(err)
	}
	want := `drive nvme:x, serial S1
critical warnings bit 7; temperature outside its thresholds
temperature 37 °C
available spare 90 % (threshold 10 %)
endurance used 130 %
data read 1.46MiB, or more
data written 15.99EiB, or more
read commands 0
write commands 0
busy 1h30m0s
powered on 12,345 h
power cycles 0
unsafe shutdowns 0
media errors 0
error log entries 0
error 9 Unrecovered Read Error (queue 2, command 0x0007, namespace 1, LBA 55)
`
	if d := cmp.Diff(want, squeeze(out.String())); d != "" {
		t.Error(d)
	}
	if h.BytesRead != 3*512_000 || h.BytesWritten != math.MaxUint64 || !h.BytesAreSaturate {
		t.Errorf("bytes %d and %d, saturated %v", h.BytesRead, h.BytesWritten, h.BytesAreSaturate)
	}
	cold := decodeHealth("", "", libnvm.SMART{}, nil)
	if cold.TemperatureC != nil || cold.NewestErrors == nil || cold.Warnings == nil {
		t.Errorf("%+v: a temperature of 0 K is none, and lists are not null", cold)
	}
	if s := minutes(math.MaxUint64); s != "18,446,744,073,709,551,615 min" {
		t.Errorf("minutes beyond a Duration: %s", s)
	}
}

// squeeze makes one blank of the blanks that align columns.
func squeeze(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

func TestDecodeController(t *testing.T) {
	raw := make([]byte, 4096)
	raw[77] = 5
	binary.LittleEndian.PutUint16(raw[266:], 343)
	binary.LittleEndian.PutUint16(raw[268:], 358)
	binary.LittleEndian.PutUint64(raw[280:], 1<<40)
	c := decodeController(libnvm.ControllerInfo{VendorID: 0x144d, Version: 1<<16 | 3<<8 | 2, OACS: 1<<1 | 1<<15, ONCS: 1 << 2}, raw)
	if c.VendorID != "0x144d" || c.Version != "1.3.2" || *c.WarningC != 70 || *c.CriticalC != 85 || c.Capacity != 1<<40 ||
		strings.Join(c.AdminCommands, ",") != "Format NVM,bit 15" || strings.Join(c.IOCommands, ",") != "Dataset Management" {
		t.Errorf("%+v", c)
	}
	raw[288] = 1
	if c := decodeController(libnvm.ControllerInfo{}, raw); c.Capacity != math.MaxUint64 {
		t.Errorf("a capacity of more than 64 bits: %d", c.Capacity)
	}
	const capability = 1023 | 20<<24 | 2<<32 | 1<<48 | 4<<52 // MQES, TO, DSTRD, MPSMIN, MPSMAX
	want := driveLimits{MDTS: 8192 << 5, MQES: 1024, ReadyTimeoutMS: 10_000, DoorbellStride: 16, MinPage: 8192, MaxPage: 65536}
	if d := cmp.Diff(want, decodeLimits(capability, raw)); d != "" {
		t.Error(d)
	}
	raw[77] = 0
	if l := decodeLimits(capability, raw); l.MDTS != 0 {
		t.Errorf("no limit is %d bytes", l.MDTS)
	}
}
