package tritier_test

import (
	"context"
	"fmt"

	"github.com/tritier/tritier"
)

// An array of a million numbers over a first tier of 64 KiB.
func Example() {
	ctx := context.Background()
	mem, err := tritier.Open(ctx, tritier.Config{
		Store: "mem:32MiB", PageSize: 16 << 10, // "file:/data/a?size=64GiB,file:/data/b?size=64GiB" lasts
		T1: 64 << 10, T2: 256 << 10, Policy: "tier-order",
		GPU: "none", // auto takes the first GPU's memory for T1
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	squares, err := tritier.NewArray[uint64](ctx, mem, "squares", 1_000_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	part := make([]uint64, 10_000)
	for first := uint64(0); first < squares.Len(); first += uint64(len(part)) {
		for i := range part {
			part[i] = (first + uint64(i)) * (first + uint64(i))
		}
		if err := squares.Write(ctx, first, part); err != nil {
			fmt.Println(err)
			return
		}
	}
	got := make([]uint64, 3)
	if err := squares.Gather(ctx, []uint64{7, 999_999, 500_000}, got); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(got, mem.Stats().Counters.T3Fetches > 0)
	if err := mem.Close(ctx); err != nil { // writes everything back
		fmt.Println(err)
	}
	// Output: [49 999998000001 250000000000] true
}
