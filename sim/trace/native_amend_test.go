package trace

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceHeader: a trace reads as before, with the new header; one that does not fit
// is refused and changes nothing.
func TestReplaceHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.ttrc")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := Header{PageSize: 4096, Source: "a", Generator: "whole  ", PageAddressed: true}
	w := NewWriter(f, h)
	recs := []Record{{Addr: 7, Flags: PageAddressed}, {Addr: 9, Op: Write, Flags: PageAddressed}}
	if err := w.Write(recs); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		generator string
		pages, ok bool
	}{{"not whole", true, false}, {"broken ", false, false}, {"broken ", true, true}} {
		n := h
		n.Generator, n.PageAddressed = x.generator, x.pages
		if err := ReplaceHeader(f, info.Size(), path, n); (err == nil) != x.ok {
			t.Errorf("%q: %v", x.generator, err)
		}
		r, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]Record, 5)
		if n, err := r.Next(got); n != 2 || err != nil || got[1] != recs[1] {
			t.Errorf("%d, %v: %+v", n, err, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	n, err := OpenNative(f, info.Size(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if n.Header().Generator != "broken " {
		t.Errorf("%+v", n.Header())
	}
	if err := ReplaceHeader(f, info.Size()-3, path, h); err == nil {
		t.Error("a trace that is cut off gets a header")
	}
}
