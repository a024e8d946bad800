package volume

import (
	"bytes"
	"errors"
	"testing"
)

// TestCreateRefusesWhatIsThere: whatever marks a file system or volume within the first
// 128 KiB keeps Create off, and nothing is written.
func TestCreateRefusesWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		off   int
		mark  string
		found string
	}{
		{0, "XFSB", "an XFS file system"},
		{512, "EFI PART", "a GUID partition table"},
		{1080, "\x53\xef", "an ext file system"},
		{dirOffset - 1, "x", "data of unknown kind"},
		{65600, "_BHRfS_M", "a Btrfs file system"}, // whose first 64 KiB are zero
		{dirOffset, dirMagic, "what is left of a volume"},
		{2*dirOffset - 1, "x", "data of unknown kind"},
	} {
		r := newRig(t, 1, 3<<20, 3<<20)
		copy(r.disks[1].durable[c.off:], c.mark)
		want := bytes.Clone(r.disks[1].durable)
		var notEmpty *NotEmptyError
		if _, err := Create(r.members(-1), options(true)); !errors.As(err, &notEmpty) || notEmpty.Found != c.found || notEmpty.Member != "disk1" {
			t.Errorf("%q at %d: %v", c.mark, c.off, err)
		}
		r.powerOff()
		if !bytes.Equal(r.disks[1].durable, want) {
			t.Errorf("%q at %d: the disk was written to", c.mark, c.off)
		}
		o := options(true)
		o.Force = true
		must(t, create(t, r, o).Close())
	}
}

// TestCreateAgain: a Create that a power failure has interrupted needs no force to be
// repeated, unless it has come to be a volume.
func TestCreateAgain(t *testing.T) {
	again := 0
	for limit := 0; ; limit++ {
		r := newRig(t, uint64(limit), 3<<20)
		v, err := Create(r.members(limit), options(true))
		if err == nil {
			_ = v.Close() // whose power fails
			break
		}
		r.powerOff()
		if v, err = Open(r.members(-1)); err != nil {
			again++
			v = create(t, r, options(true))
		}
		must(t, v.Close())
	}
	if again < 3 {
		t.Errorf("only %d of them left no volume", again)
	}
}

// TestOpenRefusesTooSmall: what is smaller than a superblock is no volume, and no failure
// of the drive.
func TestOpenRefusesTooSmall(t *testing.T) {
	var format *FormatError
	if _, err := Open(newRig(t, 1, 4096).members(-1)); !errors.As(err, &format) {
		t.Errorf("%v", err)
	}
}
