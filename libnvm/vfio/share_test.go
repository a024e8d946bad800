package vfio

import (
	"testing"
)

// TestShareBAR rings a doorbell as another process would, through its own descriptor.
func TestShareBAR(t *testing.T) {
	for _, i := range []Interface{Group, IOMMUFD} {
		k, tree := machine(t)
		tr := opened(t, k, tree, Options{Interface: i})
		r, err := tr.ShareBAR(0)
		if err != nil {
			t.Fatal(err)
		}
		if r.Bytes != tr.Registers().Len() {
			t.Errorf("%d bytes, want the %d of the registers", r.Bytes, tr.Registers().Len())
		}
		b, err := k.Mmap(r.FD, r.Offset, r.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		b[0x1000] = 5
		if v := tr.Registers().Read32(0x1000); v != 5 {
			t.Errorf("the register reads %d, want 5", v)
		}
		if err := k.Munmap(b); err != nil {
			t.Error(err)
		}
		if err := k.Close(r.FD); err != nil {
			t.Error(err)
		}
		for _, bir := range []int{-1, 6} {
			if r, err := tr.ShareBAR(bir); err == nil || r.FD != -1 {
				t.Errorf("BAR%d: %+v, %v", bir, r, err)
			}
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if r, err := tr.ShareBAR(0); err == nil || r.FD != -1 {
			t.Errorf("after Close: %+v, %v", r, err)
		}
	}
}
