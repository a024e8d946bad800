package trace

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestNVBitCut: a file that is cut off anywhere inside its last line is refused,
// but for the line's end itself.
func TestNVBitCut(t *testing.T) {
	var line strings.Builder
	line.WriteString("MEMTRACE: CTX 0x000055d0 - LAUNCH - grid_launch_id 0 - CTA 0,0,0 - warp 0 - LDG.E - ")
	for i := range warpLanes {
		fmt.Fprintf(&line, "0x%016x ", 0x7f0000000000+i*4)
	}
	line.WriteByte('\n')
	for _, before := range []int{0, 1, 3} {
		head := strings.Repeat(line.String(), before)
		from := strings.Index(line.String(), "0x00007f")
		for cut := strings.Index(line.String(), "grid_launch_id ") + 15; cut <= line.Len(); cut++ {
			// The only line shows nothing of what should follow an address.
			const width = len("0x0123456789abcdef ")
			if rest := (cut - from) % width; before == 0 && cut < line.Len()-2 && (cut < from+width || rest == 0 || rest == width-1) {
				continue
			}
			got, err := readBytes(t, []byte(head+line.String()[:cut]), Options{Format: "nvbit"}, 100)
			if complete := cut >= line.Len()-2; complete != (err == io.EOF) {
				t.Errorf("%d lines and %d of %d bytes: %d records, then %v", before, cut, line.Len(), len(got), err)
			}
		}
	}
	// Lists of different shapes say nothing about the last one.
	mixed := nvLine + "0x10 0x2000\n" + nvLine + "0x1\n" + nvLine + "0x30 0x4"
	if got, err := readBytes(t, []byte(mixed), Options{}, 100); len(got) != 5 || err != io.EOF {
		t.Errorf("%d records, %v", len(got), err)
	}
}
