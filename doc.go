// Package tritier gives a program arrays larger than GPU memory: their pages live in
// GPU memory (tier T1), pinned host memory (T2) or on NVMe SSD (T3), and move by
// themselves.
//
//	mem, err := tritier.Open(ctx, tritier.Config{
//		Store: "file:/data/embeddings?size=200GiB", Create: true,
//		T1: 16 << 30, T2: 64 << 30, Policy: "gmt-reuse",
//	})
//	rows, err := tritier.NewArray[float32](ctx, mem, "rows", 40_000_000_000)
//	err = rows.Gather(ctx, indices, values)
//	err = mem.Close(ctx)
//
// A Memory keeps its arrays in its store under their names; contents survive Close
// and a later Open. Flush and Close write everything back and say what could not be.
// Without a GPU the same calls work with T1 in ordinary memory; Memory.Describe says
// so. Nothing here needs root, a kernel module or a raw drive.
//
// # Concurrency
//
// All methods may be called from any goroutine. Batches on one Memory take turns.
//
// # Errors
//
// A batch of which some page accesses failed returns a *BatchError that names the
// pages; the others were made. A memory whose tiers can no longer be trusted answers
// with a *BrokenError that names what is lost. Nothing panics, and every wait is
// bounded by Config.Timeout or the caller's context.
package tritier
