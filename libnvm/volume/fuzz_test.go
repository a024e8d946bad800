package volume

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// FuzzOpen overwrites parts of a volume's metadata with hostile bytes. Open may
// refuse; it must not panic, nor hang, nor touch what is outside the member.
func FuzzOpen(f *testing.F) {
	r := newRig(f, 1, 2<<20)
	v, err := Create(r.members(-1), options(true))
	must(f, err)
	a, err := v.CreateArray("a", 20)
	must(f, err)
	u := newUser(f, v, 4)
	_, err = u.write(a, []uint64{1, 2, 3}, 1)
	must(f, err)
	r.powerOff() // left open: recovery runs
	for _, off := range []uint32{0, 8, 4096, dirOffset, dirOffset + dirSlot, logOffset, logOffset + 4096, uint32(v.label.TableOffset)} {
		f.Add(off, []byte{1}, true)
		f.Add(off, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, true)
		f.Add(off+20, []byte{0xff, 0, 0xff}, false)
	}
	f.Fuzz(func(t *testing.T, off uint32, change []byte, seal bool) {
		c := r.clone(2)
		d := c.disks[0].durable
		off %= uint32(v.label.DataOffset)
		copy(d[off:], change)
		if seal { // make the checksums right, so that the content is looked at
			reseal(v, d)
		}
		c.t = t
		x, err := Open(c.members(-1))
		if err != nil {
			return
		}
		for _, info := range x.Arrays() {
			if info.First+info.Pages > x.Pages() || info.First+info.Pages < info.First {
				t.Fatalf("array outside the volume: %+v", info)
			}
			b, err := x.OpenArray(info.Name)
			if errors.Is(err, ErrNoArray) {
				t.Fatalf("a listed array cannot be opened: %+v", info)
			}
			must(t, err)
			must(t, b.Close())
		}
		_ = x.Close()
	})
}

// reseal computes the checksums of the superblocks and the directory anew.
func reseal(v *Volume, d []byte) {
	le := binary.LittleEndian
	for _, at := range []int{0, labelSize} {
		p := d[at : at+labelSize]
		le.PutUint64(p[labelSize-8:], xxhash.Sum64(p[:labelSize-8]))
	}
	for _, at := range []int{dirOffset, dirOffset + dirSlot} {
		p := d[at : at+dirSlot]
		le.PutUint64(p[dirSlot-8:], seeded(v.label.UUID, p[:dirSlot-8]))
	}
}
