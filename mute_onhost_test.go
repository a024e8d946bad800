package tritier_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestCloseEndsOnMuteDriveOnHost: with engine host too, a drive that stays silent costs Close a few
// time-outs and not one for every set of its pages. Those that it lacks are counted, and those of
// the other drive stored.
func TestCloseEndsOnMuteDriveOnHost(t *testing.T) {
	drives := []*mute{{}, {}}
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "a") + "?size=8MiB,file:" + filepath.Join(dir, "b") + "?size=8MiB"
	// What counts is how often it is tried: a time-out that a busy machine does not reach by itself.
	m, err := tritier.Open(t.Context(), tritier.Config{Store: store, Create: true, PageSize: page, T1: 60 * page, T2: 60 * page, Buffers: 8 * page,
		GPU: "none", Timeout: time.Second, Faults: func(i int) soft.Faults { return drives[i] }})
	if err != nil {
		t.Fatal(err)
	}
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 100*page/8)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]uint64, a.Len())
	for i := range want {
		want[i] = uint64(i)*7 + 1
	}
	if err := a.Write(t.Context(), 0, want); err != nil {
		t.Fatal(err)
	}
	drives[1].fall(true)
	var lost *tritier.FlushError
	if err := m.Close(t.Context()); !errors.As(err, &lost) || lost.Failed != 50 || lost.Err == nil {
		t.Errorf("%v", err)
	}
	if n := drives[1].resets.Load(); n < 3 || n > 8 { // one after each try, and for what the store writes itself
		t.Errorf("%d resets", n)
	}
	drives[1].silent.Store(false)
	closeMemory(t, m)
	if right := pagesStored(t, tritier.Config{Store: store, T1: 8 * page, Buffers: 8 * page}, want); right < 50 {
		t.Errorf("%d pages are stored", right)
	}
}
