package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tritier/tritier/bamio/layout"
)

// device is what the device's compiler says of each field.
var device = []struct {
	of     any
	size   uintptr
	fields map[string]uintptr
}{
	{layout.Cid{}, sizeCid, map[string]uintptr{"Word": offsetCidWord, "Dword0": offsetCidDword0}},
	{layout.Queue{}, sizeQueue, map[string]uintptr{
		"SQ": offsetQueueSq, "CQ": offsetQueueCq, "SQDoorbell": offsetQueueSqDoorbell, "CQDoorbell": offsetQueueCqDoorbell,
		"Ready": offsetQueueReady, "Cids": offsetQueueCids, "Depth": offsetQueueDepth, "CQDepth": offsetQueueCqDepth,
		"CidCount": offsetQueueCidCount, "ID": offsetQueueId, "NSID": offsetQueueNsid, "Drive": offsetQueueDrive,
		"Tickets": offsetQueueTickets, "NextCid": offsetQueueNextCid, "Rung": offsetQueueRung, "RingLock": offsetQueueRingLock,
		"Failed": offsetQueueFailed, "Freed": offsetQueueFreed, "CQHead": offsetQueueCqHead, "CQLock": offsetQueueCqLock,
		"Spurious": offsetQueueSpurious, "Doorbells": offsetQueueDoorbells, "Completions": offsetQueueCompletions,
	}},
	{layout.Drive{}, sizeDrive, map[string]uintptr{
		"Blocks": offsetDriveBlocks, "BlockSize": offsetDriveBlockSize, "MaxBlocks": offsetDriveMaxBlocks,
		"FirstQueue": offsetDriveFirstQueue, "QueueCount": offsetDriveQueueCount, "ID": offsetDriveId,
		"IOVA": offsetDriveIova, "Lists": offsetDriveLists,
	}},
	{layout.Payload{}, sizePayload, map[string]uintptr{
		"Base": offsetPayloadBase, "IOVA": offsetPayloadIova, "Lists": offsetPayloadLists, "Bytes": offsetPayloadBytes,
		"ListBytes": offsetPayloadListBytes, "Count": offsetPayloadCount,
	}},
	{layout.Engine{}, sizeEngine, map[string]uintptr{
		"Version": offsetEngineVersion, "DriveCount": offsetEngineDriveCount, "QueueCount": offsetEngineQueueCount,
		"Drives": offsetEngineDrives, "Queues": offsetEngineQueues, "Requests": offsetEngineRequests,
		"DeadlineNS": offsetEngineDeadlineNs, "Stop": offsetEngineStop, "Payload": offsetEnginePayload,
	}},
	{layout.Request{}, sizeRequest, map[string]uintptr{
		"Sequence": offsetRequestSequence, "Kind": offsetRequestKind, "Argument": offsetRequestArgument,
		"Done": offsetRequestDone, "Result": offsetRequestResult, "Abandoned": offsetRequestAbandoned, "Withdrawn": offsetRequestWithdrawn,
	}},
	{layout.RequestRing{}, sizeRing, map[string]uintptr{
		"Slots": offsetRingSlots, "Count": offsetRingCount, "Tail": offsetRingTail, "Head": offsetRingHead,
	}},
}

// TestLayout: every field lies where the device has it.
func TestLayout(t *testing.T) {
	for _, d := range device {
		typ := reflect.TypeOf(d.of)
		if typ.Size() != d.size {
			t.Errorf("%s has %d bytes, on the device %d", typ.Name(), typ.Size(), d.size)
		}
		seen := 0
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "_" {
				continue
			}
			seen++
			if want, ok := d.fields[f.Name]; !ok {
				t.Errorf("%s.%s is not compared with the device", typ.Name(), f.Name)
			} else if f.Offset != want {
				t.Errorf("%s.%s is at %d, on the device at %d", typ.Name(), f.Name, f.Offset, want)
			}
		}
		if seen != len(d.fields) {
			t.Errorf("%s has %d fields, on the device %d", typ.Name(), seen, len(d.fields))
		}
	}
}

// TestConstants: so do the numbers that both sides know.
func TestConstants(t *testing.T) {
	for i, x := range [][2]uint32{
		{layout.Version, layoutVersion},
		{layout.Free, stateFree}, {layout.InFlight, stateInFlight}, {layout.Done, stateDone}, {layout.Abandoned, stateAbandoned},
		{layout.OK, statusOk}, {layout.Timeout, statusTimeout}, {layout.QueueFailed, statusQueueFailed}, {layout.DeviceGone, statusDeviceGone},
		{layout.BadArgument, statusBadArgument}, {layout.Stopped, statusStopped}, {layout.NoCompletion, statusNoCompletion}, {layout.RequestFailed, statusRequestFailed},
		{layout.Busy, statusBusy}, {layout.NotBegun, statusNotBegun}, {layout.Begun, requestBegun},
	} {
		if x[0] != x[1] {
			t.Errorf("constant %d: %#x, on the device %#x", i, x[0], x[1])
		}
	}
}

var exported = regexp.MustCompile(`ptxgen_const_(\w+) = (\d+)`)

// TestHostCompiler: g++ lays the structs out as the device's compiler does, so
// that CPU builds of the device code work on the same memory. The header's own
// constants are printed by a program and compared with the committed ones.
func TestHostCompiler(t *testing.T) {
	gxx, err := exec.LookPath("g++")
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "g++") {
			t.Fatal(err)
		}
		t.Skip("no g++")
	}
	source, err := os.ReadFile("check.cu")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(source), "// layout_probe")
	names := regexp.MustCompile(`(?m)^(?:TRITIER_EXPORT_CONST\((\w+)|FIELD\(\w+, (\w+))`).FindAllStringSubmatch(text, -1)
	var b strings.Builder
	b.WriteString(text + "\n#include <stdio.h>\nint main() {\n")
	for _, n := range names {
		name := n[1]
		if name == "" {
			name = "offset_" + n[2]
		}
		b.WriteString("printf(\"ptxgen_const_" + name + " = %llu\\n\", (unsigned long long)ptxgen_const_" + name + ");\n")
	}
	b.WriteString("}\n")
	dir := t.TempDir()
	main, bin := filepath.Join(dir, "main.cpp"), filepath.Join(dir, "main")
	if err := os.WriteFile(main, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), gxx, "-std=c++17", "-Wno-invalid-offsetof", "-I", "../../../cuda/device", "-I", "../../device", "-o", bin, main)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	host := values(t, string(out))
	device := deviceValues(t)
	if len(host) < 70 || len(host) != len(device) {
		t.Errorf("g++ has %d constants, the device %d", len(host), len(device))
	}
	for name, v := range host {
		if device[name] != v {
			t.Errorf("%s is %d with g++, %d on the device", name, v, device[name])
		}
	}
}

func values(t *testing.T, text string) map[string]uint64 {
	t.Helper()
	m := map[string]uint64{}
	for _, x := range exported.FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseUint(x[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		m[x[1]] = v
	}
	return m
}

// deviceValues reads the constants from the committed PTX; one of value 0 has no initialiser there.
func deviceValues(t *testing.T) map[string]uint64 {
	t.Helper()
	ptx, err := os.ReadFile("check.ptx")
	if err != nil {
		t.Fatal(err)
	}
	m := values(t, string(ptx))
	for _, x := range regexp.MustCompile(`ptxgen_const_(\w+);`).FindAllStringSubmatch(string(ptx), -1) {
		m[x[1]] = 0
	}
	return m
}
