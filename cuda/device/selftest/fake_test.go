package selftest

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// openFake opens a software GPU of the given compute capability.
func openFake(t *testing.T, major, minor int) (*cudafake.GPU, *cuda.Context) {
	t.Helper()
	fake := cudafake.New(cudafake.WithDevice(cudafake.DeviceSpec{Attributes: map[cuda.Attribute]int{
		cuda.ComputeCapabilityMajor: major, cuda.ComputeCapabilityMinor: minor,
	}}))
	t.Cleanup(func() {
		if err := fake.Close(); err != nil {
			t.Error(err)
		}
	})
	drv, err := cuda.OpenBackend(fake)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
		if leaks := fake.Leaks(); len(leaks) > 0 {
			t.Errorf("leaks: %q", leaks)
		}
	})
	return fake, ctx
}

// The newest variant that the device can run is loaded, and none on a device
// that is too old for all.
func TestVariantForTheDevice(t *testing.T) {
	for _, row := range []struct{ major, minor, want int }{
		{7, 0, 70}, {7, 5, 70}, {8, 0, 80}, {8, 9, 80}, {9, 0, 90}, {12, 1, 90}, {6, 1, 0},
	} {
		_, ctx := openFake(t, row.major, row.minor)
		k, err := loadVariants(ctx)
		if row.want == 0 {
			if err == nil || !strings.Contains(err.Error(), "6.1") || !strings.Contains(err.Error(), "sm_70") {
				t.Errorf("%d.%d: %v", row.major, row.minor, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d.%d: %v", row.major, row.minor, err)
			continue
		}
		for _, f := range []*cuda.Function{k.CompiledForFunction(), k.WriteMagicFunction()} {
			if v, err := f.Attribute(cuda.FunctionPTXVersion); err != nil || v != row.want {
				t.Errorf("%d.%d: %s was compiled for %d (%v), want %d", row.major, row.minor, f, v, err, row.want)
			}
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The parameter block is what a C compiler lays out for the declaration in
// selftest.cu; the offsets here are worked out by hand.
func TestParametersBlock(t *testing.T) {
	fake, ctx := openFake(t, 9, 0)
	k, err := loadKernels(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var got []byte
	fake.RegisterKernel("parameters", func(l *cudafake.Launch) error {
		got = bytes.Clone(l.Params)
		return nil
	})
	s, err := ctx.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := mail{kind: 0xdeadbeef, tag: 0xabcd, words: [6]uint64{1, 2, 3, 1 << 63, 5, math.MaxUint64}}
	for _, last := range []bool{true, false} {
		err = k.Parameters(s, grid(1, 1), 0x1234567890, 0xf1, -2, 0xfff3, -4, !last, 0xfffffff5, -6, 0x77, 1<<63|8, -9, -1.5, math.Pi, 1<<40, 1, &m, last)
		if err == nil {
			err = s.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 137)
		le := binary.LittleEndian
		le.PutUint64(want[0:], 0x1234567890)
		want[8], want[9] = 0xf1, 0xfe
		le.PutUint16(want[10:], 0xfff3)
		le.PutUint16(want[12:], 0xfffc)
		want[14], want[136] = 1, 0
		if last {
			want[14], want[136] = 0, 1
		}
		le.PutUint32(want[16:], 0xfffffff5)
		le.PutUint32(want[20:], 0xfffffffa)
		want[24] = 0x77
		le.PutUint64(want[32:], 1<<63|8)
		le.PutUint64(want[40:], math.MaxUint64-8)
		le.PutUint32(want[48:], math.Float32bits(-1.5))
		le.PutUint64(want[56:], math.Float64bits(math.Pi))
		le.PutUint64(want[64:], 1<<40)
		le.PutUint32(want[72:], 1)
		le.PutUint32(want[80:], 0xdeadbeef)
		le.PutUint16(want[84:], 0xabcd)
		for i, w := range m.words {
			le.PutUint64(want[88+8*i:], w)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("got  %x\nwant %x", got, want)
		}
	}
	if err := k.Parameters(s, grid(1, 1), 0, 0, 0, 0, 0, false, 0, 0, 0, 0, 0, 0, 0, 0, 0, nil, false); err == nil || !strings.Contains(err.Error(), "mail is nil") {
		t.Errorf("a nil struct: %v", err)
	}
}
