package volume

import (
	"context"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// sum is the checksum that is recorded for a page: xxhash64, combined so that a
// page of zeroes has 0, the content of a table that was never written.
func (v *Volume) sum(page []byte) uint64 {
	s := xxhash.Sum64(page) ^ v.zeroSum
	if s >= unknownMark { // it and tornMark stand for something else
		s -= 2
	}
	return s
}

// blockOf finds a page's place in the checksum table.
func (v *Volume) blockOf(page uint64) (ref blockRef, index int) {
	n := uint64(v.label.Members)
	slot := page / n
	return blockRef{int(page % n), int(slot / sumsPerBlock)}, int(slot % sumsPerBlock)
}

func (v *Volume) tableOffset(block int) int64 {
	return int64(v.label.TableOffset) + int64(block)*2*tableBlock
}

// block returns a block of the table, reading it at its first use. Needs mu.
func (v *Volume) block(ref blockRef) (*sumBlock, error) {
	if b := v.sums[ref.member][ref.block]; b != nil {
		return b, nil
	}
	b, stale, err := v.readBlock(ref)
	if err != nil {
		return nil, err
	}
	v.sums[ref.member][ref.block] = b
	if stale > 0 { // the next checkpoint repairs it
		v.countFaults(ref, b, stale)
	}
	return b, nil
}

// tableError is for a page whose checksum was lost.
func (v *Volume) tableError(ref blockRef) *ChecksumTableError {
	first := uint64(ref.block) * sumsPerBlock
	return &ChecksumTableError{v.members[ref.member].Name(), ref.block,
		first*uint64(v.label.Members) + uint64(ref.member), min(sumsPerBlock, v.label.Slots-first)}
}

// readBlock reads both copies, see pickSums.
func (v *Volume) readBlock(ref blockRef) (b *sumBlock, stale int, err error) {
	p, err := v.meta[ref.member].read(v.tableOffset(ref.block), 2*tableBlock)
	if err != nil {
		return nil, 0, err
	}
	b, stale = pickSums(v.label.UUID, ref.block, p)
	return b, stale, nil
}

// setSum records a checksum in memory, to be written by the next checkpoint.
// Needs mu.
func (v *Volume) setSum(page, sum uint64) error {
	ref, i := v.blockOf(page)
	b, err := v.block(ref)
	if err != nil {
		return err
	}
	if b.sums[i] != sum {
		b.sums[i] = sum
		v.touch(ref, b)
	}
	return nil
}

func (v *Volume) touch(ref blockRef, b *sumBlock) {
	if !b.dirty {
		b.dirty = true
		v.dirty = append(v.dirty, ref)
	}
}

// countFaults notes copies that the storage has damaged. Needs mu.
func (v *Volume) countFaults(ref blockRef, b *sumBlock, stale int) {
	if !b.counted {
		v.tableFaults += stale
		b.counted = true
	}
	v.touch(ref, b)
}

// announce makes it durable that pages are about to get new checksums. Without
// it a crash between page and checksum could not be told from corruption.
// Their blocks of the table are loaded. Needs mu.
func (v *Volume) announce(intents []intent) error {
	if v.broken != nil {
		return v.broken
	}
	if len(intents) > v.logRoom(0) {
		return fmt.Errorf("volume: %d writes in one batch, the intent log holds %d; use smaller batches or a larger log", len(intents), v.logRoom(0))
	}
	if len(intents) > v.logRoom(v.logSeq) {
		if err := v.checkpoint(); err != nil {
			return err
		}
		if len(intents) > v.logRoom(v.logSeq) {
			return fmt.Errorf("volume: the intent log is full of pages whose writes are in flight or failed: %w", ErrBusy)
		}
	}
	if err := v.appendLog(v.dir.epoch, intents); err != nil {
		return err
	}
	for _, e := range intents {
		p := v.pending[e.page]
		if p == nil {
			p = new(pendingPage)
			v.pending[e.page] = p
		}
		if !slices.Contains(p.sums, e.sum) {
			p.sums = append(p.sums, e.sum)
		}
		p.flying++
	}
	return nil
}

// logRoom is how many intents fit behind the first used units.
func (v *Volume) logRoom(used uint64) int {
	units := v.label.LogHalf/uint64(v.label.LogUnit) - used
	return int(units) * intentsPerUnit(int(v.label.LogUnit))
}

func (v *Volume) logOffset(epoch uint64) int64 {
	return logOffset + int64(epoch%2)*int64(v.label.LogHalf)
}

// appendLog writes intents behind those of the epoch, durably. When it fails
// the place is used again: what may have reached the disk only adds checksums
// that would also be accepted.
func (v *Volume) appendLog(epoch uint64, intents []intent) error {
	io, unit := v.meta[0], int(v.label.LogUnit)
	n := encodeIntents(v.label.UUID, unit, epoch, v.logSeq, intents, io.buf)
	if n == 0 {
		return nil
	}
	if err := io.write(v.logOffset(epoch)+int64(v.logSeq)*int64(unit), n, true); err != nil {
		return err
	}
	v.logSeq += uint64(n / unit)
	return nil
}

// settle ends one write of a page. Needs mu.
func (v *Volume) settle(page, sum uint64, err error) error {
	p := v.pending[page]
	if p == nil {
		return fmt.Errorf("volume: page %d of the volume completed a write that was not announced", page)
	}
	p.flying--
	if err != nil {
		return nil // whether the page changed is not known: the candidates stay
	}
	if p.flying == 0 {
		delete(v.pending, page)
	}
	return v.setSum(page, sum)
}

// verdict is what verify finds.
type verdict uint8

const (
	pageGood verdict = iota
	pageTorn
	pageCorrupt
)

// verify compares a page that was read with what is recorded. Needs mu.
func (v *Volume) verify(page, got uint64) (verdict, uint64, error) {
	ref, i := v.blockOf(page)
	b, err := v.block(ref)
	if err != nil {
		return pageGood, 0, err
	}
	want := b.sums[i]
	p := v.pending[page]
	switch {
	case got == want, p != nil && slices.Contains(p.sums, got):
		return pageGood, want, nil
	case want == unknownMark:
		return pageGood, 0, v.tableError(ref)
	case want == tornMark, p != nil:
		return pageTorn, want, nil
	}
	return pageCorrupt, want, nil
}

// checkpoint makes the checksum table durable and begins a new epoch of the
// intent log. Needs mu, which also keeps completions from being recorded: what
// the table says now is of writes that completed before the flush.
//
// Pages with writes in flight are announced again in the new epoch's half, so
// that the old one, which is valid until the directory names the new epoch, is
// not touched.
func (v *Volume) checkpoint() error {
	if !v.Checksums() {
		return v.flush(context.Background())
	}
	if err := v.flush(context.Background()); err != nil {
		return err
	}
	if err := v.writeTable(); err != nil {
		return err
	}
	return v.nextEpoch()
}

// writeTable makes both copies of every changed block durable, one after the
// other. The epoch goes on only then: while the copies differ the log has what
// the older one lacks. Needs mu.
func (v *Volume) writeTable() error {
	if len(v.dirty) == 0 {
		return nil
	}
	for _, ref := range v.dirty {
		b := v.sums[ref.member][ref.block]
		b.gen++ // each attempt has its own
		b.counted = true
	}
	for range 2 {
		for _, ref := range v.dirty {
			if err := v.writeBlock(ref); err != nil {
				return err
			}
		}
		if err := v.flush(context.Background()); err != nil {
			return err
		}
		// Only now may the other copy go: an attempt that failed is repeated on
		// the same one.
		for _, ref := range v.dirty {
			b := v.sums[ref.member][ref.block]
			b.newest = 1 - b.newest
		}
	}
	for _, ref := range v.dirty {
		b := v.sums[ref.member][ref.block]
		b.dirty, b.counted = false, false
	}
	v.dirty = v.dirty[:0]
	return nil
}

// writeBlock writes a block over the copy that may go.
func (v *Volume) writeBlock(ref blockRef) error {
	io, b := v.meta[ref.member], v.sums[ref.member][ref.block]
	b.encode(v.label.UUID, ref.block, b.gen, io.buf)
	return io.write(v.tableOffset(ref.block)+int64(1-b.newest)*tableBlock, tableBlock, false)
}

func (v *Volume) nextEpoch() error {
	var carried []intent
	for page, p := range v.pending {
		for _, s := range p.sums {
			carried = append(carried, intent{page, s})
		}
	}
	if len(carried) > v.logRoom(0) {
		return fmt.Errorf("volume: %d page writes in flight or failed are more than the intent log holds: %w", len(carried), ErrBusy)
	}
	d := *v.dir
	d.epoch++
	seq := v.logSeq
	v.logSeq = 0
	if err := v.appendLog(d.epoch, carried); err != nil {
		v.logSeq = seq
		return err
	}
	if err := v.commit(&d); err != nil {
		v.logSeq = seq
		return err
	}
	return nil
}
