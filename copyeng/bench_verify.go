package copyeng

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
)

// verifyBytes bounds what is compared of one batch.
const verifyBytes = 64 << 20

// scramble fills memory with a xorshift sequence. Zeros would hide unwritten
// pages and can be faster than data.
func scramble(mem []byte, seed uint64) {
	x := seed | 1
	for i := 0; i+8 <= len(mem); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(mem[i:], x)
	}
}

// verify runs a path once on fresh pages and compares what arrived with what
// was sent: all pages, or as many as verifyBytes hold. The host's pages hold new
// data before: what is sent, or what must be overwritten.
func (b *Bench) verify(ctx context.Context, batch Batch, p Path, n int) error {
	batch.Pairs = b.draw(batch.PageSize, n)
	page := batch.PageSize
	look := min(n, int(b.check.size)/page)
	device, err := b.deviceCopy(ctx, &batch, look)
	if err != nil {
		return err
	}
	for _, x := range batch.Pairs[:look] {
		scramble(b.hostPage(b.host, x.Host, page), b.rng.Uint64())
	}
	if err := b.queue.force(p, &batch); err != nil {
		return err
	}
	if err := b.wait(ctx); err != nil {
		return err
	}
	if batch.Dir == ToDevice {
		if device, err = b.deviceCopy(ctx, &batch, look); err != nil {
			return err
		}
	}
	for i, x := range batch.Pairs[:look] {
		if !bytes.Equal(b.hostPage(b.host, x.Host, page), device[i*page:][:page]) {
			return fmt.Errorf("bench of copies: %s, %d pages of %d bytes %s: host page %d and device page %d differ after the copy (seed %d)",
				p, n, page, batch.Dir, x.Host, x.Device, b.seed)
		}
	}
	return nil
}

func (b *Bench) hostPage(s *Space, n uint32, page int) []byte {
	return s.bytes[uint64(n)*uint64(page):][:page]
}
