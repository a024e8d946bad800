package timed

import (
	"strings"
	"testing"

	"github.com/tritier/tritier/internal/servicetime"
)

// The relations and numbers that the study (DaMoN 2025) gives of its machine, and
// nothing besides. Where it gives a relation, the tolerance says how it was read.

func preset(t testing.TB, name string) *servicetime.Model {
	t.Helper()
	m, err := servicetime.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func measure(t testing.TB, m *servicetime.Model, l Load) Measurement {
	t.Helper()
	out, err := Measure(m, l)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const kib = 1 << 10

// studySizes are those of the study's figure and two beyond it.
var studySizes = []uint64{4 * kib, 8 * kib, 16 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib, 512 * kib, 1024 * kib, 2048 * kib, 4096 * kib}

// rates are the bytes per second of a path over the sizes.
func rates(t *testing.T, m *servicetime.Model, path string) map[uint64]Measurement {
	out := map[uint64]Measurement{}
	for _, s := range studySizes {
		out[s] = measure(t, m, Load{Path: path, Size: s})
	}
	return out
}

func TestStudyFourDrives(t *testing.T) {
	m := preset(t, "v100-4x980pro")
	link := m.Links["pcie-in"].Bandwidth.Value
	bam, spdk, gds := rates(t, m, "bam"), rates(t, m, "spdk"), rates(t, m, "gds")
	last := 0.0
	for _, s := range studySizes {
		b, k, g := bam[s].BytesPerSecond, spdk[s].BytesPerSecond, gds[s].BytesPerSecond
		if b > 1.0005*link || g > 1.0005*link {
			t.Errorf("%d bytes: BaM %.4g, GDS %.4g B/s pass the link's %.4g", s, b, g, link)
		}
		if full := b > 0.99*link && strings.HasPrefix(bam[s].Bottleneck, "link:"); s >= 32*kib && !full {
			t.Errorf("%d bytes: BaM does not fill the link: %.4g of %.4g B/s, bound by %s", s, b, link, bam[s].Bottleneck)
		}
		if s <= 8*kib && (b > 0.95*link || b/k < 0.9 || b/k > 1.1) {
			t.Errorf("%d bytes: BaM %.4g and SPDK %.4g B/s; they are about equal and below the link", s, b, k)
		}
		if s >= 16*kib && (k < 1.1*b || k < last) {
			t.Errorf("%d bytes: SPDK %.4g B/s after %.4g; it goes on scaling beyond BaM's %.4g", s, k, last, b)
		}
		if g > 0.95*link {
			t.Errorf("%d bytes: GDS fills the link", s)
		}
		last = k
	}
	if most := spdk[1024*kib].BytesPerSecond; most < 24e9 || most > 26e9 {
		t.Errorf("SPDK reaches %.4g B/s, want about 25 GB/s", most)
	}
}

func TestStudyOneDrive(t *testing.T) {
	m := preset(t, "v100-1x980pro")
	bam, spdk := rates(t, m, "bam"), rates(t, m, "spdk")
	for _, s := range studySizes {
		r := bam[s].BytesPerSecond / spdk[s].BytesPerSecond
		if s <= 512*kib && (r < 0.95 || r > 1.05) {
			t.Errorf("%d bytes: BaM is %.3f of SPDK; up to 512 KiB they nearly coincide", s, r)
		}
		if s == 4*kib && r < 1.01 {
			t.Errorf("4 KiB: BaM is %.3f of SPDK, want slightly ahead", r)
		}
		// Above 512 KiB the study's figure holds cache hits: storage gives no
		// more than its drive.
		if most := m.Drives.Read.Bandwidth.Value; bam[s].BytesPerSecond > 1.0005*most {
			t.Errorf("%d bytes: %.4g B/s from a drive of %.4g", s, bam[s].BytesPerSecond, most)
		}
	}
}

func TestStudyScaling(t *testing.T) {
	m := preset(t, "v100-4x980pro")
	one := measure(t, m, Load{Path: "bam", Size: 4 * kib, Drives: 1}).IOPS
	var bam []Measurement
	for n := 1; n <= 4; n++ {
		b, k := measure(t, m, Load{Path: "bam", Size: 4 * kib, Drives: n}), measure(t, m, Load{Path: "spdk", Size: 4 * kib, Drives: n})
		if r := b.IOPS / k.IOPS; n <= 3 && (r < 0.95 || r > 1.05 || b.IOPS < 0.95*float64(n)*one) {
			t.Errorf("%d drives: BaM %.4g, SPDK %.4g IOPS, one drive %.4g; want equal, and scaling", n, b.IOPS, k.IOPS, one)
		}
		bam = append(bam, b)
	}
	if bam[3].IOPS > 1.1*bam[2].IOPS || bam[3].Bottleneck != servicetime.EdgeInitiator {
		t.Errorf("the fourth drive: %.4g after %.4g IOPS, bound by %s; want no more, and the initiator", bam[3].IOPS, bam[2].IOPS, bam[3].Bottleneck)
	}
	// Given enough GPU threads, the study says: with few it is another matter.
	if few := measure(t, m, Load{Path: "bam", Size: 4 * kib, Drives: 3, InFlight: 32}); few.IOPS > 0.8*bam[2].IOPS || few.Bottleneck != BoundInFlight {
		t.Errorf("32 threads on three drives: %.4g of %.4g IOPS, bound by %s", few.IOPS, bam[2].IOPS, few.Bottleneck)
	}
}

func TestStudyTopology(t *testing.T) {
	m := preset(t, "v100-4x980pro")
	largest := 0.0
	for size := uint64(512); size <= 64*kib; size *= 2 {
		near := measure(t, m, Load{Path: "bam", Size: size, InFlight: 2})
		far := measure(t, m, Load{Path: "bam-far", Size: size, InFlight: 2})
		loss := 1 - far.IOPS/near.IOPS
		largest = max(largest, loss)
		if loss > 0.335 || loss < -0.01 || size >= 8*kib && loss > 0.01 || size <= 4*kib && loss < 0.01 {
			t.Errorf("%d bytes: another root complex costs %.1f %% of the IOPS", size, 100*loss)
		}
	}
	if largest < 0.32 {
		t.Errorf("the largest difference is %.1f %%, want 33 %%", 100*largest)
	}
}

func TestStudyBill(t *testing.T) {
	for _, model := range []string{"v100-4x980pro", "v100-1x980pro"} {
		m := preset(t, model)
		for _, c := range []struct {
			path, who, ends string
			cpus, gpu       float64
		}{
			{"bam", "gpu", "gpu", 1, 1},
			{"gds", "cpu", "gpu", 16, 0},
			{"spdk", "cpu", "host", 2, 0},
		} {
			b := measure(t, m, Load{Path: c.path, Size: 4 * kib}).Bill
			if b.Initiator != c.who || b.Ends != c.ends || b.LogicalCPUs == nil || *b.LogicalCPUs != c.cpus || b.GPUShare == nil || *b.GPUShare != c.gpu {
				t.Errorf("%s %s: %+v, want %+v", model, c.path, b, c)
			}
		}
	}
}

// TestStudyResidentQueues holds the three numbers of later work.
func TestStudyResidentQueues(t *testing.T) {
	m := preset(t, "h100-16xgen5")
	for _, c := range []struct {
		size     uint64
		threads  int
		want     float64
		perBytes bool
	}{
		{512, 4096, 61.5e6, false},
		{4 * kib, 512, 45e9, true},
		{64 * kib, 32, 45e9, true},
	} {
		r := measure(t, m, Load{Size: c.size, InFlight: c.threads})
		got := r.IOPS
		if c.perBytes {
			got = r.BytesPerSecond
		}
		if got < 0.95*c.want || got > 1.05*c.want {
			t.Errorf("%d threads, %d bytes: %.4g, want %.4g", c.threads, c.size, got, c.want)
		}
	}
	if p := m.Paths["resident"]; p.Outstanding(m.Drives.Count) != 2*128*16 {
		t.Errorf("%d outstanding, want 2 queues of depth 128 on 16 drives", p.Outstanding(m.Drives.Count))
	}
}
