package volume

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// format writes an empty volume. The labels come last, and Open needs all of
// them, so a crash in the middle leaves no volume.
func (v *Volume) format(force bool) error {
	for i := range v.meta {
		if err := v.checkEmpty(i, force); err != nil {
			return err
		}
	}
	v.dir = &directory{nextID: 1, epoch: 1}
	for i := range v.meta {
		if err := v.wipe(i); err != nil {
			return err
		}
	}
	if err := v.commit(v.dir); err != nil {
		return err
	}
	for i := range v.meta {
		if err := v.writeLabel(i); err != nil {
			return err
		}
	}
	return nil
}

// checkEmpty refuses a member whose first 128 KiB are not zero: a volume, a
// partition table, or a file system, which all mark that area, Btrfs its second half.
// What an interrupted Create leaves lies behind it.
func (v *Volume) checkEmpty(i int, force bool) error {
	if force {
		return nil
	}
	var head []byte
	for _, at := range []int64{0, dirOffset} {
		p, err := v.meta[i].read(at, dirOffset)
		if err != nil {
			return err
		}
		head = append(head, p...)
	}
	if found := foreign(head); found != "" {
		return &NotEmptyError{v.meta[i].member.Name(), found}
	}
	return nil
}

// foreign names what the first 128 KiB of a member hold, "" when that is nothing.
func foreign(head []byte) string {
	switch {
	case allZero(head):
		return ""
	case string(head[:8]) == labelMagic:
		return "a volume"
	case string(head[512:520]) == "EFI PART":
		return "a GUID partition table"
	case head[510] == 0x55 && head[511] == 0xaa:
		return "a partition table or boot sector"
	case binary.LittleEndian.Uint16(head[1080:]) == 0xef53:
		return "an ext file system"
	case string(head[:4]) == "XFSB":
		return "an XFS file system"
	case string(head[dirOffset+64:dirOffset+72]) == "_BHRfS_M":
		return "a Btrfs file system"
	case string(head[dirOffset:dirOffset+8]) == dirMagic:
		return "what is left of a volume"
	}
	return "data of unknown kind"
}

// wipe clears the labels first, so that an old volume is gone before its
// metadata is, then all metadata.
func (v *Volume) wipe(i int) error {
	io := v.meta[i]
	clear(io.buf[:dirSlot])
	if err := io.write(0, dirOffset, true); err != nil {
		return err
	}
	if err := io.zero(dirOffset, int64(v.label.DataOffset)-dirOffset); err != nil {
		return err
	}
	return io.do(Op{Kind: OpFlush})
}

func (v *Volume) writeLabel(i int) error {
	l := v.label
	l.Member = uint32(i)
	io := v.meta[i]
	clear(io.buf[:dirOffset])
	if err := l.encode(io.buf); err != nil {
		return err
	}
	copy(io.buf[labelSize:2*labelSize], io.buf[:labelSize])
	// The second copy first: a crash in between leaves a label that is whole.
	return io.write(0, 2*labelSize, true)
}

// identify reads the members' labels and puts them in order.
func identify(members []Member, p *patience) ([]Member, *label, error) {
	if len(members) < 1 || len(members) > MaxMembers {
		return nil, nil, fmt.Errorf("volume: %d members, 1 to %d are possible", len(members), MaxMembers)
	}
	sorted := make([]Member, len(members))
	var first *label
	for _, m := range members {
		l, err := readLabel(m, p)
		if err != nil {
			return nil, nil, err
		}
		if first == nil {
			first = l
		}
		if err := belongs(m, l, first, sorted); err != nil {
			return nil, nil, err
		}
		sorted[l.Member] = m
	}
	first.Member = 0
	return sorted, first, nil
}

// belongs checks that a member is part of the same volume as the first, under
// its recorded identity, and not there twice.
func belongs(m Member, l, first *label, sorted []Member) error {
	same := *l
	same.Member = first.Member
	switch {
	case same != *first:
		return &FormatError{m.Name(), "it belongs to another volume than the first member"}
	case int(l.Members) != len(sorted):
		return &FormatError{m.Name(), fmt.Sprintf("the volume has %d members, %d are given", l.Members, len(sorted))}
	case sorted[l.Member] != nil:
		return &FormatError{m.Name(), fmt.Sprintf("it is member %d, as %s is: one is a copy", l.Member, sorted[l.Member].Name())}
	}
	want, got := l.Identities[l.Member].identity(), m.Identity()
	if want != got {
		return &FormatError{m.Name(), fmt.Sprintf("the volume was made on %v, this is %v: a clone is not opened", want, got)}
	}
	return nil
}

// readLabel reads a member's label from the first copy that is valid.
func readLabel(m Member, bound *patience) (*label, error) {
	if m.Size() < 2*labelSize {
		return nil, &FormatError{m.Name(), fmt.Sprintf("it holds no volume (%d bytes are too few for one)", m.Size())}
	}
	io, err := openMeta(m, 2*labelSize, bound)
	if err != nil {
		return nil, err
	}
	p, err := io.read(0, 2*labelSize)
	if err == nil {
		p = bytes.Clone(p)
	}
	if err := errors.Join(err, io.close()); err != nil {
		return nil, err
	}
	l, reason := decodeLabel(p[:labelSize])
	if l == nil {
		if l, _ = decodeLabel(p[labelSize:]); l == nil {
			return nil, &FormatError{m.Name(), reason}
		}
	}
	if reason := l.check(m.Size(), m.BlockSize()); reason != "" {
		return nil, &FormatError{m.Name(), reason}
	}
	return l, nil
}

// load reads the directory and recovers a volume that was not closed.
func (v *Volume) load() error {
	var slots [2][]byte
	var have [2]*directory
	for i := range slots {
		p, err := v.meta[0].read(slotOffset(uint64(i)), dirSlot)
		if err != nil {
			return err
		}
		slots[i] = bytes.Clone(p)
		have[i] = decodeDirectory(v.label.UUID, p, v.Pages())
	}
	v.dir = newer(have[0], have[1])
	if v.dir == nil {
		return &FormatError{v.members[0].Name(), "both copies of the array directory are damaged"}
	}
	damaged := slices.Index(have[:], nil)
	doubt := false
	if damaged >= 0 && v.dir.open {
		var err error
		if doubt, err = v.mayBeClosed(slots[damaged]); err != nil {
			return err
		}
	}
	if damaged >= 0 && (doubt || !v.dir.open) { // else a crash may have cut it
		v.dirFaults = 1
	}
	v.recovery = Recovery{Unclean: v.dir.open, Uncertain: doubt, LastOwner: v.dir.owner}
	if v.dir.open && v.readOnly && !doubt {
		return &UncleanError{v.members[0].Name(), v.dir.owner}
	}
	if v.dir.open && v.Checksums() && !v.readOnly {
		return v.recover()
	}
	return nil
}

// mayBeClosed says whether the damaged slot of the directory may have said that the volume
// was closed after the other one was written. Then nothing is in the log.
func (v *Volume) mayBeClosed(slot []byte) (bool, error) {
	if !v.dir.closing(v.label.UUID, slot) || !v.Checksums() {
		return v.dir.closing(v.label.UUID, slot), nil
	}
	intents, err := v.intents()
	return len(intents) == 0, err
}
