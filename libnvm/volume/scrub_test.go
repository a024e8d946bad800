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

// TestNewestDirectoryLost: a volume that was closed, and lost the copy of its directory that
// says so, is not called one that was left open: it can be read and checked, and one copy is
// damaged. Where pages were being written, or the copy said otherwise, it was not closed.
func TestNewestDirectoryLost(t *testing.T) {
	damage := map[string]func(slot []byte){
		"zeroes":       func(slot []byte) { clear(slot) },
		"a byte":       func(slot []byte) { slot[7000] ^= 1 },
		"its head":     func(slot []byte) { clear(slot[:512]) },
		"another's":    func(slot []byte) { slot[16] ^= 1 },
		"no magic":     func(slot []byte) { slot[0] ^= 1 },
		"its checksum": func(slot []byte) { slot[dirSlot-1] ^= 1 },
	}
	for what, harm := range damage {
		for _, checksums := range []bool{true, false} {
			r := newRig(t, 1, 3<<20, 3<<20)
			writeArray(t, create(t, r, options(checksums)))
			harm(newestSlot(r))
			before := bytes.Clone(r.disks[0].durable)
			v, err := OpenReadOnly(r.members(-1))
			if err != nil {
				t.Errorf("%s, checksums %v: %v", what, checksums, err)
				continue
			}
			if c := v.Recovery(); !c.Unclean || !c.Uncertain || c.LastOwner == "" {
				t.Errorf("%s, checksums %v: %+v", what, checksums, c)
			}
			want := ScrubReport{Pages: 20, Directories: 1}
			if rep, err := v.Scrub(t.Context(), nil); err != nil || rep != want {
				t.Errorf("%s, checksums %v: scrub: %+v, %v", what, checksums, rep, err)
			}
			must(t, v.Close())
			if !bytes.Equal(r.disks[0].durable, before) {
				t.Errorf("%s, checksums %v: the disk was written to", what, checksums)
			}
			v = reopen(t, r)
			if rep, err := v.Scrub(t.Context(), nil); err != nil || rep != want || !v.Recovery().Uncertain {
				t.Errorf("%s, checksums %v: scrub of what was opened for writing: %+v, %v", what, checksums, rep, err)
			}
			must(t, v.Close())
			v = reopen(t, r)
			if rep, err := v.Scrub(t.Context(), nil); err != nil || rep.Copies() != 0 || v.Recovery().Unclean {
				t.Errorf("%s, checksums %v: after the repair: %+v, %v, %+v", what, checksums, rep, err, v.Recovery())
			}
			must(t, v.Close())
		}
	}
}

// writeArray makes an array of 20 pages, writes it and closes the volume.
func writeArray(t *testing.T, v *Volume) {
	t.Helper()
	a, err := v.CreateArray("a", 20)
	must(t, err)
	u := newUser(t, v, 8)
	for p := range uint64(20) {
		_, err := u.write(a, []uint64{p}, 7)
		must(t, err)
	}
	u.close()
	must(t, errors.Join(a.Close(), v.Close()))
}

// newestSlot is the slot of the directory that counts, on the first disk.
func newestSlot(r *rig) []byte {
	a, b := r.disks[0].durable[dirOffset:dirOffset+dirSlot], r.disks[0].durable[dirOffset+dirSlot:dirOffset+2*dirSlot]
	if binary.LittleEndian.Uint64(a[32:]) > binary.LittleEndian.Uint64(b[32:]) {
		return a
	}
	return b
}

// TestDirectoryLostInUse: of a volume that a crash has ended the same loss leaves no doubt where
// pages were in the log, or the damaged copy was no closing one.
func TestDirectoryLostInUse(t *testing.T) {
	for _, what := range []string{"pages in the log", "the newest was in use", "the older"} {
		r := newRig(t, 1, 3<<20, 3<<20)
		v := create(t, r, options(true))
		a, err := v.CreateArray("a", 20)
		must(t, err)
		if what == "pages in the log" {
			u := newUser(t, v, 8)
			_, err := u.write(a, []uint64{3}, 7)
			must(t, err)
		}
		r.powerOff()
		newest := newestSlot(r)
		switch what {
		case "pages in the log":
			for _, slot := range [][]byte{r.disks[0].durable[dirOffset:], r.disks[0].durable[dirOffset+dirSlot:]} {
				if &slot[0] != &newest[0] {
					clear(slot[:dirSlot]) // so that the log is that of the one that is left
				}
			}
		case "the newest was in use":
			newest[7000] ^= 1
		case "the older":
			for _, slot := range [][]byte{r.disks[0].durable[dirOffset:], r.disks[0].durable[dirOffset+dirSlot:]} {
				if &slot[0] != &newest[0] {
					slot[7000] ^= 1
				}
			}
		}
		var unclean *UncleanError
		if _, err := OpenReadOnly(r.members(-1)); !errors.As(err, &unclean) {
			t.Errorf("%s: %v", what, err)
		}
		v = reopen(t, r)
		if c := v.Recovery(); !c.Unclean || c.Uncertain {
			t.Errorf("%s: %+v", what, c)
		}
		must(t, v.Close())
	}
}
