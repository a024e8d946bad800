package volume

import (
	"bytes"
	"errors"
	"testing"
)

// TestReadOnly: reading, and scrubbing what is damaged, leave every byte of the
// members as it was, whatever else is tried.
func TestReadOnly(t *testing.T) {
	for _, checksums := range []bool{true, false} {
		r := newRig(t, 1, 3<<20, 3<<20)
		v := create(t, r, options(checksums))
		a, err := v.CreateArray("a", 100)
		must(t, err)
		u := newUser(t, v, 8)
		for p := range uint64(100) {
			_, err := u.write(a, []uint64{p}, 7)
			must(t, err)
		}
		u.close()
		must(t, errors.Join(a.Close(), v.Close()))
		if checksums { // damage to a page, and to one copy of a block of the table
			r.disks[0].durable[int64(v.label.DataOffset)+511] ^= 1
			r.disks[1].durable[v.tableOffset(0)+9] ^= 1
		}
		before := [][]byte{bytes.Clone(r.disks[0].durable), bytes.Clone(r.disks[1].durable)}
		v, err = OpenReadOnly(r.members(-1))
		must(t, err)
		rep, err := v.Scrub(t.Context(), nil)
		if err != nil || rep.Pages != 100 || checksums && (rep.Corrupt != 1 || rep.Repaired != 1) || rep.OK() == checksums {
			t.Errorf("scrub: %+v, %v", rep, err)
		}
		a, err = v.OpenArray("a")
		must(t, err)
		u = newUser(t, v, 8)
		u.expect(a, 57, 7)
		if _, err := u.write(a, []uint64{57}, 8); !errors.Is(err, ErrReadOnly) {
			t.Errorf("a write: %v", err)
		}
		u.expect(a, 57, 7)
		if _, err := v.CreateArray("b", 1); !errors.Is(err, ErrReadOnly) {
			t.Errorf("a new array: %v", err)
		}
		must(t, a.Close())
		if err := v.DeleteArray("a"); !errors.Is(err, ErrReadOnly) {
			t.Errorf("a deletion: %v", err)
		}
		u.close()
		must(t, v.Close())
		for i, d := range r.disks {
			if !bytes.Equal(d.durable, before[i]) || len(d.volatile) > 0 {
				t.Errorf("checksums %v: member %d was written to", checksums, i)
			}
		}
	}
}

// TestReadOnlyRefusesUnclean: a volume that was not closed is not read as if it were.
func TestReadOnlyRefusesUnclean(t *testing.T) {
	r := newRig(t, 1, 3<<20)
	create(t, r, options(true))
	r.powerOff()
	var unclean *UncleanError
	if _, err := OpenReadOnly(r.members(-1)); !errors.As(err, &unclean) || unclean.Owner == "" {
		t.Errorf("%v", err)
	}
	must(t, reopen(t, r).Close())
	v, err := OpenReadOnly(r.members(-1))
	must(t, err)
	must(t, v.Close())
}
