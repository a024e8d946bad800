package tritier

import (
	"fmt"
	"strings"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/tier/host"
)

// Description says truthfully what a Memory is made of.
type Description struct {
	T1, T2   Tier
	Drives   []Drive
	PageSize Size
	Checked  bool   // pages have checksums
	Policy   string // canonical, every parameter named
	Seed     uint64
	Engine   string // who decides and who moves
	Moves    *Moves // who copies pages between T1 and host memory; nil with engine host, which chooses for each batch
	Modelled string // the model that paces the drives: times are modelled then; or ""
}

// Moves says who copies pages each way with engine gpu, and why.
type Moves struct{ ToDevice, ToHost string }

// String is both ways in two lines.
func (m *Moves) String() string {
	return "pages to T1 by " + m.ToDevice + "\npages from T1 by " + m.ToHost
}

// Tier is a tier in memory.
type Tier struct {
	Where string
	Why   string // why not in GPU memory; "" if it is as asked for
	Bytes Size
	Pages int
}

// Drive is a drive of the store and how it is reached.
type Drive struct {
	Name string
	Path string
}

// Describe says what the Memory is made of, for reports.
func (m *Memory) Describe() Description {
	p := m.cfg
	frames, t2, _ := p.pages()
	d := Description{PageSize: p.PageSize, Checked: m.vol.Checksums(), Policy: p.policy.String(), Seed: p.Seed,
		T1: Tier{Pages: frames, Bytes: Size(frames) * p.PageSize}, T2: Tier{Pages: t2, Bytes: Size(t2) * p.PageSize}}
	for _, u := range p.drives {
		path := "software controller over memory, served by the CPU"
		switch u.Scheme {
		case drive.File:
			path = "software controller over a file, served by the CPU"
		case drive.PCI:
			path = "raw drive, which reads and writes host memory"
		}
		d.Drives = append(d.Drives, Drive{u.String(), path})
	}
	if p.model != nil {
		d.Modelled = p.model.Name
	}
	m.eng.describe(&d)
	return d
}

// String is the description in some lines.
func (d Description) String() string {
	var b strings.Builder
	tier := func(name string, t Tier) {
		fmt.Fprintf(&b, "%s  %v in %d pages of %v, %s", name, t.Bytes, t.Pages, d.PageSize, t.Where)
		if t.Why != "" {
			fmt.Fprintf(&b, " (%s)", t.Why)
		}
		b.WriteByte('\n')
	}
	tier("T1", d.T1)
	tier("T2", d.T2)
	for _, x := range d.Drives {
		fmt.Fprintf(&b, "T3  %s, %s\n", x.Name, x.Path)
	}
	if d.Modelled != "" {
		fmt.Fprintf(&b, "    modelled: paced as %s\n", d.Modelled)
	}
	fmt.Fprintf(&b, "policy %s, seed %d; %s\n", d.Policy, d.Seed, d.Engine)
	if d.Moves != nil {
		fmt.Fprintln(&b, d.Moves)
	}
	return b.String()
}

// Stats is what a Memory has done so far.
type Stats struct {
	host.Stats
	// Copies between T1 and T2 by direction and path of the copy engine; with engine gpu
	// by the ways PathKernel to PathKernelNotCopied, whose Batches are 0.
	Copies copyeng.Stats
	// With engine gpu, MovesCPU is the processor time of the goroutines that start copies
	// on request of kernels, MovesError what last went wrong with one, and MovesLost counts
	// those that did not end in time: accesses that failed.
	MovesCPU   time.Duration
	MovesError error
	MovesLost  uint64

	// With engine gpu, Crowded are the demotions that went to T3 instead, since T2's oldest
	// pages, or all spare slots, were in motion: a placement that no simulation has.
	// Compactions are those of T2's order, which took Compacting in all: who put a page into T2
	// waited meanwhile.
	Crowded, Compactions uint64
	Compacting           time.Duration

	// With engine gpu and gmt-reuse, ReuseSamples are the accesses that the CPU was told of to
	// fit reuse distances, ReuseDropped those that it was too slow for, and ReuseFits the
	// trusted fits that kernels have taken over.
	ReuseSamples, ReuseDropped, ReuseFits uint64
}

// Stats returns the counts so far, and after Close the last ones. With engine gpu they come
// from the GPU: all are zero when it does not answer within Config.Timeout, and times by
// edge are not counted there.
func (m *Memory) Stats() Stats { return m.eng.stats() }
