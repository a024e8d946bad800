package tritier_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

// hostPages is how many pages the array of mutedOnHost has; half of them are on each drive.
const hostPages = 100

// mutedOnHost is a memory of two drives where the CPU decides, with an array of which all pages
// are dirty, in T1 and in T2, when t1 and t2 have room for them.
func mutedOnHost(t *testing.T, drives []*mute, t1, t2 int, checksums bool) (m *tritier.Memory, a *tritier.Array[uint64], want []uint64, stored tritier.Config) {
	t.Helper()
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "a") + "?size=8MiB,file:" + filepath.Join(dir, "b") + "?size=8MiB"
	m, err := tritier.Open(t.Context(), tritier.Config{Store: store, Create: true, PageSize: page, T1: tritier.Size(t1) * page, T2: tritier.Size(t2) * page, Buffers: 8 * page,
		GPU: "none", Timeout: time.Second, Checksums: checksums, Faults: func(i int) soft.Faults { return drives[i] }})
	if err != nil {
		t.Fatal(err)
	}
	if a, err = tritier.NewArray[uint64](t.Context(), m, "a", hostPages*page/8); err != nil {
		t.Fatal(err)
	}
	want = make([]uint64, a.Len())
	for i := range want {
		want[i] = uint64(i)*7 + 1
	}
	if err := a.Write(t.Context(), 0, want); err != nil {
		t.Fatal(err)
	}
	return m, a, want, tritier.Config{Store: store, T1: 8 * page, Buffers: 8 * page}
}

// fellDead makes a drive answer nothing, and not be reset, until it isBack.
func fellDead(d *mute) {
	d.last.Store(1)
	d.fall(true)
}

func isBack(d *mute) {
	d.last.Store(0)
	d.silent.Store(false)
}

// storedOn says whether the pages of a drive, by number, are stored as they should be.
func storedOn(t *testing.T, stored tritier.Config, drive int, want []uint64) {
	t.Helper()
	again := open(t, stored)
	b, err := tritier.OpenArray[uint64](t.Context(), again, "a")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]uint64, page/8)
	for p := drive; p < hostPages; p += 2 {
		if err := b.Read(t.Context(), uint64(p*page/8), got); err != nil {
			t.Fatal(err)
		}
		for i, x := range got {
			if x != want[p*page/8+i] {
				t.Fatalf("page %d, element %d is %d, want %d", p, i, x, want[p*page/8+i])
			}
		}
	}
	closeMemory(t, again)
}

// TestCloseBesideDeadDriveOnHost: with engine host too, a drive that cannot be reset costs its own
// pages, which Close counts and names, and those of the other drive are stored, from T1 and T2.
func TestCloseBesideDeadDriveOnHost(t *testing.T) {
	for _, dead := range []int{0, 1} {
		drives := []*mute{{}, {}}
		// The log that checksums need is on drive 0.
		m, _, want, stored := mutedOnHost(t, drives, 60, 60, dead == 1)
		fellDead(drives[dead])
		var lost *tritier.FlushError
		var reset *volume.ResetError
		err := m.Close(t.Context())
		if !errors.As(err, &lost) || lost.Failed != hostPages/2 || !errors.As(err, &reset) || reset.Member != dead {
			t.Fatalf("drive %d dead: %v", dead, err)
		}
		for i, p := range lost.Pages {
			if p.Array != "a" || p.Page != uint64(2*i+dead) {
				t.Errorf("drive %d dead: page %d of %q is named", dead, p.Page, p.Array)
			}
		}
		if s := m.Stats(); s.Flushed < hostPages/2 {
			t.Errorf("drive %d dead: %d pages flushed", dead, s.Flushed)
		}
		_ = m.Close(t.Context()) // the dead drive's part of it has failed
		isBack(drives[dead])
		storedOn(t, stored, 1-dead, want)
	}
}

// TestCloseOfBrokenOnHost: what breaks in the middle of a wave keeps every page: the other drive's are
// stored by Close, and those of a drive that is back until then.
func TestCloseOfBrokenOnHost(t *testing.T) {
	for _, back := range []bool{false, true} {
		drives := []*mute{{}, {}}
		m, a, want, stored := mutedOnHost(t, drives, 10, 20, false) // most are stored already
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range want[:20*page/8] { // again dirty, in both tiers
			want[i] += 1000
		}
		if err := a.Write(t.Context(), 0, want[:20*page/8]); err != nil {
			t.Fatal(err)
		}
		fellDead(drives[1])
		var broken *tritier.BrokenError
		// Reads of the silent drive, for which pages of T1 and T2 have to leave.
		if err := a.Read(t.Context(), 40*page/8, make([]uint64, 40*page/8)); !errors.As(err, &broken) || !broken.Kept || broken.Lost == 0 {
			t.Fatalf("a drive that cannot be reset: %v", err)
		}
		if err := m.Flush(t.Context()); !errors.As(err, &broken) {
			t.Errorf("a flush: %v", err)
		}
		if back {
			isBack(drives[1])
		}
		err := m.Close(t.Context())
		var lost *tritier.FlushError
		if back && err != nil || !back && (!errors.As(err, &lost) || lost.Failed == 0 || lost.Failed > 10) {
			t.Errorf("the drive is back: %v: %v", back, err)
		}
		_ = m.Close(t.Context())
		isBack(drives[1])
		storedOn(t, stored, 0, want)
		if back {
			storedOn(t, stored, 1, want)
		}
	}
}

// TestSalvageGoesOnOnHost: a Close whose context ends while what is left is written leaves the rest
// to the next.
func TestSalvageGoesOnOnHost(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	drives := []*mute{{}, {}}
	m, a, want, stored := mutedOnHost(t, drives, 60, 60, false)
	fellDead(drives[1])
	var broken *tritier.BrokenError
	if err := m.Flush(t.Context()); !errors.As(err, &broken) || !broken.Kept {
		t.Fatalf("a flush: %v", err)
	}
	cancel()
	if err := m.Close(ctx); !errors.Is(err, tritier.ErrNotClosed) {
		t.Errorf("close: %v", err)
	}
	if err := a.Read(t.Context(), 0, make([]uint64, 1)); !errors.As(err, &broken) {
		t.Errorf("a read: %v", err)
	}
	var lost *tritier.FlushError
	if err := m.Close(t.Context()); !errors.As(err, &lost) || lost.Failed != hostPages/2 {
		t.Errorf("close again: %v", err)
	}
	_ = m.Close(t.Context())
	isBack(drives[1])
	storedOn(t, stored, 0, want)
}

// TestSlowDriveBesideDeadOneOnHost: what a drive does not answer until it is reset again is written then,
// although the other cannot be reset at all.
func TestSlowDriveBesideDeadOneOnHost(t *testing.T) {
	drives := []*mute{{}, {}}
	drives[0].written = func() { drives[0].again.Store(false) } // the next reset helps
	m, _, want, stored := mutedOnHost(t, drives, 60, 60, false)
	drives[0].fall(true)
	fellDead(drives[1])
	var lost *tritier.FlushError
	if err := m.Close(t.Context()); !errors.As(err, &lost) || lost.Failed != hostPages/2 || drives[0].dropped.Load() == 0 {
		t.Errorf("%d writes in vain: %v", drives[0].dropped.Load(), err)
	}
	_ = m.Close(t.Context())
	isBack(drives[1])
	storedOn(t, stored, 0, want)
}
