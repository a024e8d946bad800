package volume

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestDirectoryRoundTrip places and removes arrays at random: they never
// overlap, the first gap that fits is taken, and what is decoded is what was
// encoded.
func TestDirectoryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Uint64Range(1, 5000).Draw(t, "pages")
		d := &directory{nextID: 1}
		for i := range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(d.arrays) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				d = d.without(rapid.IntRange(0, len(d.arrays)-1).Draw(t, "which"))
				continue
			}
			n := rapid.Uint64Range(1, 1000).Draw(t, "size")
			first, err := d.place(n, total)
			if want := firstGap(d.arrays, n, total); (err == nil) != (want >= 0) || err == nil && int64(first) != want {
				t.Fatalf("place %d in %+v: %d, %v; want %d", n, d.arrays, first, err, want)
			}
			if err == nil {
				d = d.with(ArrayInfo{fmt.Sprint("array", i), d.nextID, first, n})
			}
		}
		d.generation, d.epoch, d.owner, d.open = 7, 9, "me", true
		uuid, p := [16]byte{1, 2, 3}, make([]byte, dirSlot)
		if err := d.encode(uuid, p); err != nil {
			t.Fatal(err)
		}
		got := decodeDirectory(uuid, p, total)
		if got == nil || !slices.Equal(got.arrays, d.arrays) || got.nextID != d.nextID || got.generation != 7 || got.epoch != 9 || got.owner != "me" || !got.open {
			t.Fatalf("decoded %+v, encoded %+v", got, d)
		}
		if decodeDirectory([16]byte{9}, p, total) != nil {
			t.Fatal("the directory of another volume was taken")
		}
		p[rapid.IntRange(0, dirSlot-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if decodeDirectory(uuid, p, total) != nil {
			t.Fatal("a damaged directory was taken")
		}
	})
}

// firstGap is place, page by page.
func firstGap(arrays []ArrayInfo, n, total uint64) int64 {
	used := make([]bool, total)
	for _, a := range arrays {
		for p := a.First; p < a.First+a.Pages; p++ {
			if used[p] {
				return -2
			}
			used[p] = true
		}
	}
	run := uint64(0)
	for p := range total {
		if run++; used[p] {
			run = 0
		}
		if run == n {
			return int64(p + 1 - n)
		}
	}
	return -1
}

// TestDirectoryRefuses: what this program does not write it does not read.
func TestDirectoryRefuses(t *testing.T) {
	for name, arrays := range map[string][]ArrayInfo{
		"overlap":      {{"a", 1, 0, 10}, {"b", 2, 9, 10}},
		"outside":      {{"a", 1, 95, 10}},
		"no pages":     {{"a", 1, 0, 0}},
		"overflow":     {{"a", 1, 1, 1<<64 - 1}},
		"same name":    {{"a", 1, 0, 10}, {"a", 2, 10, 10}},
		"same id":      {{"a", 1, 0, 10}, {"b", 1, 10, 10}},
		"future id":    {{"a", 5, 0, 10}},
		"without name": {{"", 1, 0, 10}},
	} {
		p := make([]byte, dirSlot)
		if err := (&directory{nextID: 3, arrays: arrays}).encode([16]byte{}, p); err != nil {
			t.Fatal(err)
		}
		if decodeDirectory([16]byte{}, p, 100) != nil {
			t.Errorf("%s: taken", name)
		}
	}
	p := make([]byte, dirSlot)
	if err := (&directory{nextID: 3, arrays: []ArrayInfo{{"a", 1, 0, 10}, {"b", 2, 10, 90}}}).encode([16]byte{}, p); err != nil {
		t.Fatal(err)
	}
	if decodeDirectory([16]byte{}, p, 100) == nil {
		t.Error("a good directory was refused")
	}
}
