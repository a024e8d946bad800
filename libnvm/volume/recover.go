package volume

import (
	"bytes"
	"slices"
)

// intents are those in the log of the directory's epoch.
func (v *Volume) intents() ([]intent, error) {
	p, err := v.meta[0].read(v.logOffset(v.dir.epoch), int(v.label.LogHalf))
	if err != nil {
		return nil, err
	}
	list, _ := decodeIntents(v.label.UUID, int(v.label.LogUnit), v.dir.epoch, v.Pages(), bytes.Clone(p))
	return list, nil
}

// recover brings the checksum table of a volume that was not closed up to date.
// For every page in the intent log it compares the page with the recorded
// checksum and with those that were announced: the page is old, new, or torn.
// It may itself be interrupted and repeated, since the epoch of the log changes
// last.
func (v *Volume) recover() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	intents, err := v.intents()
	if err != nil {
		return err
	}
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

// repairTable reads the whole table and has blocks whose copies are not the same
// written anew. Where one is damaged or older a checkpoint was interrupted, or
// the storage has damaged it: what the other one may lack is in the log. The
// pages of a block with no valid copy are unknown, but for those in the log.
func (v *Volume) repairTable() error {
	for m := range v.members {
		for k := range int(v.label.TableBlocks) {
			ref := blockRef{m, k}
			b, stale, err := v.readBlock(ref)
			if err != nil {
				return err
			}
			if stale == 0 {
				continue
			}
			v.sums[m][k] = b
			b.counted = stale == 1 // a crash can do that, not damage both
			v.countFaults(ref, b, stale)
		}
	}
	return nil
}

// recoverPage settles one page of the log.
func (v *Volume) recoverPage(page uint64, sums []uint64) error {
	member, off := v.locate(page)
	ref, i := v.blockOf(page)
	b, err := v.block(ref)
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
	case b.sums[i] == unknownMark:
		return nil // it may be the old content; its readers will hear of it
	}
	v.recovery.Torn++
	return v.setSum(page, tornMark)
}
