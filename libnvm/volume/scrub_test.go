package volume

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
)

func TestScrubFindsWhatIsWrong(t *testing.T) {
	r := newRig(t, 1, 3<<20, 3<<20)
	v := create(t, r, options(true))
	var open []*Array
	for _, name := range []string{"a", "b"} {
		a, err := v.CreateArray(name, 100)
		must(t, err)
		open = append(open, a)
	}
	u := newUser(t, v, 8)
	for p := range uint64(100) {
		_, err := u.write(open[1], []uint64{p}, 1)
		must(t, err)
	}
	must(t, v.Flush())
	if rep, err := v.Scrub(t.Context(), nil); err != nil || !rep.OK() || rep.Pages != 200 {
		t.Fatalf("scrub of a good volume: %+v, %v", rep, err)
	}
	for _, p := range []uint64{0, 57, 99} {
		m, off := v.locate(open[1].info.First + p)
		r.disks[m].durable[off+511] ^= 1
	}
	torn := open[0].info.First + 5
	v.mu.Lock()
	must(t, v.setSum(torn, tornMark))
	v.mu.Unlock()
	bad := map[string][]uint64{}
	rep, err := v.Scrub(t.Context(), func(array string, page uint64, err error) { bad[array] = append(bad[array], page) })
	if err != nil || rep != (ScrubReport{Pages: 200, Corrupt: 3, Torn: 1}) {
		t.Fatalf("scrub: %+v, %v; want 3 corrupt and 1 torn of 200", rep, err)
	}
	if len(bad["a"]) != 1 || bad["a"][0] != 5 || len(bad["b"]) != 3 || bad["b"][1] != 57 {
		t.Errorf("bad pages %v", bad)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Scrub(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("scrub under a cancelled context: %v", err)
	}
	u.close()
	for _, a := range open {
		must(t, a.Close())
	}
	must(t, v.Close())
}

// TestScrubRestoresCopies: of superblocks and directory one copy is enough to open the
// volume, so that nothing but Scrub would ever find the other one lost.
func TestScrubRestoresCopies(t *testing.T) {
	for _, checksums := range []bool{true, false} {
		r := newRig(t, 1, 3<<20, 3<<20)
		must(t, create(t, r, options(checksums)).Close())
		good := [][]byte{bytes.Clone(r.disks[0].durable), bytes.Clone(r.disks[1].durable)}
		r.disks[0].durable[0] ^= 1
		r.disks[1].durable[labelSize+300] ^= 1
		older := dirOffset
		if binary.LittleEndian.Uint64(good[0][dirOffset+32:]) > binary.LittleEndian.Uint64(good[0][dirOffset+dirSlot+32:]) {
			older += dirSlot
		}
		clear(r.disks[0].durable[older : older+dirSlot])
		want := ScrubReport{Superblocks: 2, Directories: 1}
		v, err := OpenReadOnly(r.members(-1))
		must(t, err)
		if rep, err := v.Scrub(t.Context(), nil); err != nil || rep != want || rep.Copies() != 3 {
			t.Errorf("scrub of a volume opened read-only: %+v, %v; want %+v", rep, err, want)
		}
		must(t, v.Close())
		v = reopen(t, r)
		if rep, err := v.Scrub(t.Context(), nil); err != nil || rep != want {
			t.Errorf("scrub: %+v, %v; want %+v", rep, err, want)
		}
		if rep, err := v.Scrub(t.Context(), nil); err != nil || rep != (ScrubReport{}) {
			t.Errorf("scrub after it: %+v, %v", rep, err)
		}
		must(t, v.Close())
		for i, d := range r.disks {
			if !bytes.Equal(d.durable[:dirOffset], good[i][:dirOffset]) {
				t.Errorf("member %d: the superblocks are not as Create wrote them", i)
			}
		}
		p := r.disks[0].durable[dirOffset:]
		if decodeDirectory(v.label.UUID, p, v.Pages()) == nil || decodeDirectory(v.label.UUID, p[dirSlot:], v.Pages()) == nil {
			t.Error("a slot of the directory is still damaged")
		}
	}
}
