package copyeng

import (
	"bytes"
	"context"
	"fmt"
)

// exchangeVerifyBytes bounds what is compared of each side of an exchange.
const exchangeVerifyBytes = 16 << 20

// VerifyExchange runs an exchange of n pages each way once by every path, on
// fresh pages, and compares what arrived with what was sent, up to 16 MiB each
// way. The empty path asks the chooser. Exchange measures and does not compare.
func (b *Bench) VerifyExchange(ctx context.Context, page, n int, paths []Path) error {
	if err := b.checkShape(page, n, 2); err != nil {
		return err
	}
	if err := b.checkPaths(bothWays, paths); err != nil {
		return err
	}
	for _, p := range paths {
		if err := b.verifyExchange(ctx, page, n, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) verifyExchange(ctx context.Context, page, n int, p Path) error {
	pairs := b.draw(page, 2*n)
	in := Batch{Dir: ToDevice, Host: b.host, Device: b.device, PageSize: page, Pairs: pairs[:n]}
	out := Batch{Dir: ToHost, Host: b.host, Device: b.device, PageSize: page, Pairs: pairs[n:]}
	look := min(n, min(int(b.check.size), exchangeVerifyBytes)/page)
	sent, err := b.deviceCopy(ctx, &out, look)
	if err != nil {
		return err
	}
	for i := range look {
		// What is sent is new, and what lies in its place is something else.
		for _, x := range []Pair{in.Pairs[i], out.Pairs[i]} {
			scramble(b.hostPage(b.host, x.Host, page), b.rng.Uint64())
		}
	}
	if err := b.runExchange(&in, &out, &Sample{Path: p, Chosen: p == ""}); err != nil {
		return err
	}
	if err := b.wait(ctx); err != nil {
		return err
	}
	arrived, err := b.deviceCopy(ctx, &in, look)
	if err != nil {
		return err
	}
	for _, side := range []struct {
		batch  *Batch
		device []byte
	}{{&in, arrived}, {&out, sent}} {
		for i, x := range side.batch.Pairs[:look] {
			if !bytes.Equal(b.hostPage(b.host, x.Host, page), side.device[i*page:][:page]) {
				return fmt.Errorf("bench of copies: exchange of %d pages of %d bytes by %q: host page %d and device page %d differ after the copy %s (seed %d)",
					n, page, p, x.Host, x.Device, side.batch.Dir, b.seed)
			}
		}
	}
	return nil
}

// deviceCopy gives the contents of the first n device pages of a batch, by
// plain driver copies.
func (b *Bench) deviceCopy(ctx context.Context, batch *Batch, n int) ([]byte, error) {
	back := Batch{Dir: ToHost, Host: b.check, Device: b.device, PageSize: batch.PageSize}
	for i, x := range batch.Pairs[:n] {
		back.Pairs = append(back.Pairs, Pair{Host: uint32(i), Device: x.Device})
	}
	if err := b.queue.memcpy(&back); err != nil {
		return nil, err
	}
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	return bytes.Clone(b.check.bytes[:n*batch.PageSize]), nil
}
