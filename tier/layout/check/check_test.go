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
	"unsafe"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier/layout"
)

// device is what the device's compiler says of each field.
var device = []struct {
	of     any
	size   uintptr
	fields map[string]uintptr
}{
	{layout.Stripe{}, sizeStripe, map[string]uintptr{
		"Hits": offsetStripeHits, "Slow": offsetStripeSlow,
	}},
	{layout.Counts{}, sizeCounts, map[string]uintptr{
		"LateHits": offsetCountsLateHits, "Delayed": offsetCountsDelayed, "T2Hits": offsetCountsT2Hits,
		"T3Fetches": offsetCountsT3Fetches, "Overwrites": offsetCountsOverwrites, "Errors": offsetCountsErrors,
		"Evictions": offsetCountsEvictions, "Keeps": offsetCountsKeeps, "Demotions": offsetCountsDemotions,
		"Bypasses": offsetCountsBypasses, "T2Evictions": offsetCountsT2Evictions, "Writebacks": offsetCountsWritebacks,
		"Prefetches": offsetCountsPrefetches, "PrefetchReads": offsetCountsPrefetchReads, "PrefetchErrors": offsetCountsPrefetchErrors,
		"Flushed": offsetCountsFlushed, "Crowded": offsetCountsCrowded, "LostSlots": offsetCountsLostSlots,
		"DroppedSamples": offsetCountsDroppedSamples, "BytesT3Read": offsetCountsBytesT3Read, "BytesT3Write": offsetCountsBytesT3Write,
		"BytesPromoted": offsetCountsBytesPromoted, "BytesDemoted": offsetCountsBytesDemoted, "CopiesSaved": offsetCountsCopiesSaved, "RetakenSlots": offsetCountsRetakenSlots,
		"LostRecords": offsetCountsLostRecords, "Compactions": offsetCountsCompactions, "CompactionNS": offsetCountsCompactionNs,
		"Granted": offsetCountsGranted, "Predicted": offsetCountsPredicted, "Judged": offsetCountsJudged,
	}},
	{layout.Moves{}, sizeMoves, map[string]uintptr{"Pages": offsetMovesPages}},
	{layout.Mover{}, sizeMover, map[string]uintptr{
		"BamIO": offsetMoverBamio, "PatienceNS": offsetMoverPatienceNs, "Over": offsetMoverOver, "ByRequest": offsetMoverByRequest, "Pages": offsetMoverPages,
	}},
	{layout.Hot{}, sizeHot, map[string]uintptr{
		"Hand": offsetHotHand, "FreeFrames": offsetHotFreeFrames, "UsedFrames": offsetHotUsedFrames, "Starved": offsetHotStarved,
		"FramesNeeded": offsetHotFramesNeeded, "LostFrames": offsetHotLostFrames, "LostMoves": offsetHotLostMoves, "FreeSlots": offsetHotFreeSlots, "SlotHint": offsetHotSlotHint, "SparesTaken": offsetHotSparesTaken, "LostSlots": offsetHotLostSlots, "T2Used": offsetHotT2Used, "T2Extra": offsetHotT2Extra, "LogHead": offsetHotLogHead,
		"LogTail": offsetHotLogTail, "LogGate": offsetHotLogGate, "FirstError": offsetHotFirstError, "SampleTail": offsetHotSampleTail,
		"SampleTaken": offsetHotSampleTaken, "SampleGate": offsetHotSampleGate, "ParamsVersion": offsetHotParamsVersion,
		"ParamsLock": offsetHotParamsLock, "StarveAt": offsetHotStarveAt, "StarveT3": offsetHotStarveT3,
		"StarveSecond": offsetHotStarveSecond, "RecordTail": offsetHotRecordTail, "RecordTaken": offsetHotRecordTaken,
		"RecordStuck": offsetHotRecordStuck,
	}},
	{layout.ReuseParams{}, sizeReuseParams, map[string]uintptr{
		"Version": offsetReuseParamsVersion, "Slope": offsetReuseParamsSlope, "Offset": offsetReuseParamsOffset,
		"Direct": offsetReuseParamsDirect, "T1": offsetReuseParamsT1, "T1T2": offsetReuseParamsT1T2,
		"ShortBelow": offsetReuseParamsShortBelow, "MediumBelow": offsetReuseParamsMediumBelow, "Seed": offsetReuseParamsSeed,
		"FirstBelow": offsetReuseParamsFirstBelow, "Window": offsetReuseParamsWindow, "StarveAbove": offsetReuseParamsStarveAbove,
	}},
	{layout.ReusePage{}, sizeReusePage, map[string]uintptr{
		"EvictedAt": offsetReusePageEvictedAt, "History": offsetReusePageHistory,
	}},
	{layout.Sample{}, sizeSample, map[string]uintptr{
		"Now": offsetSampleNow, "Page": offsetSamplePage, "Mark": offsetSampleMark,
	}},
	{layout.Mailbox{}, sizeMailbox, map[string]uintptr{
		"Taken": offsetMailboxTaken, "Gate": offsetMailboxGate, "Version": offsetMailboxVersion, "Params": offsetMailboxParams,
	}},
	{layout.RecordBox{}, sizeRecordBox, map[string]uintptr{"Taken": offsetRecordBoxTaken}},
	{layout.Event{}, sizeEvent, map[string]uintptr{
		"Begun": offsetEventBegun, "Ended": offsetEventEnded, "Page": offsetEventPage, "Number": offsetEventNumber,
		"What": offsetEventWhat, "Mark": offsetEventMark,
	}},
	{layout.EventBox{}, sizeEventBox, map[string]uintptr{"Taken": offsetEventBoxTaken, "Clock": offsetEventBoxClock}},
	{layout.EventLog{}, sizeEventLog, map[string]uintptr{
		"Tail": offsetEventLogTail, "Taken": offsetEventLogTaken, "Begun": offsetEventLogBegun, "LeftOut": offsetEventLogLeftOut,
		"Cut": offsetEventLogCut, "Events": offsetEventLogEvents, "Box": offsetEventLogBox, "Count": offsetEventLogCount,
		"Room": offsetEventLogRoom, "Every": offsetEventLogEvery,
	}},
	{layout.Engine{}, sizeEngine, map[string]uintptr{
		"Version": offsetEngineVersion, "PageShift": offsetEnginePageShift, "T1Policy": offsetEngineT1Policy,
		"Placer": offsetEnginePlacer, "Pages": offsetEnginePages, "Frames": offsetEngineFrames, "T2Frames": offsetEngineT2Frames,
		"Slots": offsetEngineSlots, "LogSize": offsetEngineLogSize, "Entries": offsetEngineEntries, "Reuse": offsetEngineReuse,
		"FrameOwner": offsetEngineFrameOwner, "FrameMemory": offsetEngineFrameMemory, "SlotOwner": offsetEngineSlotOwner,
		"SlotOrder": offsetEngineSlotOrder, "SlotMemory": offsetEngineSlotMemory, "Log": offsetEngineLog,
		"Stripes": offsetEngineStripes, "Counts": offsetEngineCounts, "Hot": offsetEngineHot, "ReuseState": offsetEngineReuseState,
		"StarveBits": offsetEngineStarveBits, "Samples": offsetEngineSamples, "Mailbox": offsetEngineMailbox,
		"SampleCount": offsetEngineSampleCount, "Parity": offsetEngineParity, "Seed": offsetEngineSeed,
		"RandomBelow": offsetEngineRandomBelow, "DeadlineNS": offsetEngineDeadlineNs, "PinDeadlineNS": offsetEnginePinDeadlineNs,
		"Stop": offsetEngineStop, "Store": offsetEngineStore, "GiveUp": offsetEngineGiveUp, "Records": offsetEngineRecords,
		"RecordBox": offsetEngineRecordBox, "RecordCount": offsetEngineRecordCount, "RecordRoom": offsetEngineRecordRoom,
		"RecordWaitNS": offsetEngineRecordWaitNs, "Recorded": offsetEngineRecorded, "Observed": offsetEngineObserved, "Copies": offsetEngineCopies,
		"Fenced": offsetEngineFenced, "Fences": offsetEngineFences, "Moves": offsetEngineMoves, "Events": offsetEngineEvents, "Mover": offsetEngineMover,
	}},
	{layout.ArrayRef{}, sizeArrayRef, map[string]uintptr{
		"Version": offsetArrayRefVersion, "Flags": offsetArrayRefFlags, "Stripes": offsetArrayRefStripes, "ElementShift": offsetArrayRefElementShift, "PageShift": offsetArrayRefPageShift,
		"Engine": offsetArrayRefEngine, "Entries": offsetArrayRefEntries, "FrameMemory": offsetArrayRefFrameMemory,
		"FirstPage": offsetArrayRefFirstPage, "Nowhere": offsetArrayRefNowhere, "Length": offsetArrayRefLength, "Name": offsetArrayRefName,
	}},
	{layout.DriveLayout{}, sizeDriveLayout, map[string]uintptr{
		"BamIO": offsetDriveLayoutBamio, "BaseLBA": offsetDriveLayoutBaseLba, "Drives": offsetDriveLayoutDrives,
		"Blocks": offsetDriveLayoutBlocks,
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
	for i, x := range [][2]uint64{
		{layout.TierVersion, constTierVersion},
		{layout.T1Clock, constT1Clock},
		{layout.T1Fifo, constT1Fifo},
		{layout.Bypass, constBypass},
		{layout.TierOrder, constTierOrder},
		{layout.Random, constRandom},
		{layout.GmtReuse, constGmtReuse},
		{layout.ReadOp, constReadOp},
		{layout.WriteOp, constWriteOp},
		{layout.OverwriteOp, constOverwriteOp},
		{layout.PrefetchOp, constPrefetchOp},
		{layout.TierOk, constTierOk},
		{layout.WaitTimeout, constWaitTimeout},
		{layout.WaitStopped, constWaitStopped},
		{layout.AllPinned, constAllPinned},
		{layout.NoSlot, constNoSlot},
		{layout.TooManyPins, constTooManyPins},
		{layout.OutOfRange, constOutOfRange},
		{layout.BadCall, constBadCall},
		{layout.Broken, constBroken},
		{layout.NotSent, constNotSent},
		{layout.Fenced, constFenced},
		{layout.MoveLost, constMoveLost},
		{layout.WriteBack, constWriteBack},
		{layout.None, constNone},
		{layout.FreeMark, constFreeMark},
		{layout.CopyMark, constCopyMark},
		{layout.MaxPage, constMaxPage},
		{layout.MaxLocation, constMaxLocation},
		{layout.Stripes, constStripes}, {layout.StripeBytes, sizeStripe},
		{layout.MissEvent, constMissEvent},
		{layout.FlushEvent, constFlushEvent},
		{layout.EventOp, constEventOp},
		{layout.EventFailed, constEventFailed},
		{layout.EventStripe, constEventStripe},
		{layout.EventSM, constEventSm},
		{layout.Edges, constEdges},
		{layout.Buckets, constBuckets},
		{layout.MoveStripes, constMoveStripes},
		{layout.ToDevice, constToDevice},
		{layout.ToHost, constToHost},
		{layout.ByKernel, constByKernel},
		{layout.ByCopyEngine, constByCopyEngine},
		{layout.RingFull, constRingFull},
		{layout.NotTaken, constNotTaken},
		{layout.Refused, constRefused},
		{layout.Unanswered, constUnanswered},
		{layout.Ways, constWays},
		{layout.MoveRequest, constMoveRequest},
	} {
		if x[0] != x[1] {
			t.Errorf("constant %d: %#x, on the device %#x", i, x[0], x[1])
		}
	}
}

// TestReuseParams: placement's block can be copied as it is.
func TestReuseParams(t *testing.T) {
	ours, theirs := reflect.TypeFor[layout.ReuseParams](), reflect.TypeFor[placement.ReuseParams]()
	if ours.Size() != theirs.Size() || ours.NumField() != theirs.NumField() {
		t.Fatalf("%d bytes, placement's %d", ours.Size(), theirs.Size())
	}
	for i := range ours.NumField() {
		a, b := ours.Field(i), theirs.Field(i)
		if a.Offset != b.Offset || a.Type != b.Type || !strings.HasPrefix(a.Name, b.Name) {
			t.Errorf("%s %v at %d, placement's %s %v at %d", a.Name, a.Type, a.Offset, b.Name, b.Type, b.Offset)
		}
	}
}

// TestPageBytes: the arrays take at most 32 bytes of GPU memory for each page,
// with T1 : T2 = 1 : 4 and twice as many pages as both hold, also with copies and while
// accesses are recorded.
func TestPageBytes(t *testing.T) {
	const pages, t1, t2, spares = 1 << 20, 1 << 20 / 10, 1 << 20 * 4 / 10, 1024
	slots, log := t2+spares, 2*t2
	bytes := pages*(8+int(unsafe.Sizeof(layout.ReusePage{}))) + 8*t1 + 8*slots + 4*log + 2*pages/8
	if bytes > 32*pages {
		t.Errorf("%.1f bytes a page", float64(bytes)/pages)
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
