package volume

import (
	"bytes"
	"slices"
)

// recover brings the checksum table of a volume that was not closed up to date.
// For every page in the intent log it compares the page with the recorded
// checksum and with those that were announced: the page is old, new, or torn.
// It may itself be interrupted and repeated, since the epoch of the log changes
// last.
func (v *Volume) recover() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := v.meta[0].read(v.logOffset(v.dir.epoch), int(v.label.LogHalf))
	if err != nil {
		return err
	}
	intents, _ := decodeIntents(v.label.UUID, int(v.label.LogUnit), v.dir.epoch, v.Pages(), bytes.Clone(p))
	if err := v.repairTable(); err != nil {
		return err
	}
	candidates := map[uint64][]uint64{}
	for _, e := range intents {
		candidates[e.page] = append(candidates[e.page], e.sum)
	}
	for page, sums := range candidates {
		if err := v.recoverPage(page, sums); err != nil {
			return err
		}
	}
	v.recovery.Pages = len(candidates)
	return v.checkpoint()
}

// repairTable reads the whole table. A block of which one copy is damaged was
// being written: it takes the other one, of which all later changes are in the
// log, and writes the damaged copy anew. A block with no valid copy stays as it
// is and is reported when it is used.
func (v *Volume) repairTable() error {
	for m := range v.members {
		for k := range int(v.label.TableBlocks) {
			ref := blockRef{m, k}
			b, damaged, err := v.readBlock(ref)
			if err != nil {
				return err
			}
			if b == nil || !damaged {
				continue
			}
			v.sums[m][k] = b
			v.touch(ref, b)
		}
	}
	return nil
}

// recoverPage settles one page of the log.
func (v *Volume) recoverPage(page uint64, sums []uint64) error {
	member, off := v.locate(page)
	ref, i := v.blockOf(page)
	b, err := v.block(ref)
	if _, damaged := err.(*ChecksumTableError); damaged {
		return nil // its readers will hear of it
	}
	if err != nil {
		return err
	}
	data, err := v.meta[member].read(off, int(v.label.PageSize))
	if err != nil {
		// A page that cannot be read now is not known to be whole.
		v.recovery.Torn++
		return v.setSum(page, tornMark)
	}
	got := v.sum(data)
	switch {
	case got == b.sums[i]:
		return nil
	case slices.Contains(sums, got):
		v.recovery.New++
		return v.setSum(page, got)
	}
	v.recovery.Torn++
	return v.setSum(page, tornMark)
}
