package libnvm

import (
	"slices"
	"testing"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// registerFile records writes and plays a controller that takes the address of
// its memory buffer over when CMSE is written, as QEMU's does.
type registerFile struct {
	writes [][2]uint32
	msc    [2]uint32
	placed []uint64 // where the buffer was, one after the other
}

func (f *registerFile) Write32(off int, v uint32) {
	f.writes = append(f.writes, [2]uint32{uint32(off), v})
	switch off {
	case spec.RegCMBMSC:
		f.msc[0] = v
		if v&spec.CMBCMSE != 0 {
			f.placed = append(f.placed, (uint64(f.msc[1])<<32|uint64(v))&^(PageSize-1))
		}
	case spec.RegCMBMSC + 4:
		f.msc[1] = v
	}
}

// TestCMBIsEnabledLast: at no time is the buffer anywhere but where it belongs.
func TestCMBIsEnabledLast(t *testing.T) {
	for _, base := range []uint64{1 << 30, 1 << 46, 3<<32 | 5<<20, 1<<64 - 1<<24} {
		// What an earlier driver has left enabled elsewhere.
		f := &registerFile{msc: [2]uint32{0x7000 | spec.CMBCRE | spec.CMBCMSE, 9}}
		showCMB(f)
		if len(f.placed) > 0 || f.msc != [2]uint32{spec.CMBCRE, 0} {
			t.Errorf("base %#x: to look at the capabilities it wrote %#x", base, f.writes)
		}
		f.writes = nil
		placeCMB(f, base)
		if !slices.Equal(f.placed, []uint64{base}) {
			t.Errorf("the buffer was at %#x, want %#x alone", f.placed, base)
		}
		want := [][2]uint32{{spec.RegCMBMSC + 4, uint32(base >> 32)}, {spec.RegCMBMSC, uint32(base) | spec.CMBCRE | spec.CMBCMSE}}
		if !slices.Equal(f.writes, want) {
			t.Errorf("base %#x: wrote %#x, want %#x", base, f.writes, want)
		}
	}
}
