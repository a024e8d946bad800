package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tritier/tritier/cuda"
)

// The places that a byte passes.
const (
	placePinned = "pinned host memory"
	placeHost   = "host memory"
	placeGPU    = "GPU memory"
)

// paths says which ways data has on this machine, with this program.
func (c *collector) paths(r *Report) []Path {
	return []Path{c.filePath(), c.memPath(), c.nvmePath(), c.peerPath(r)}
}

// onwards are the places from the host's memory on. Without a GPU, the first tier is host memory too.
func (c *collector) onwards() []string {
	if len(c.gpus) == 0 {
		return []string{placeHost}
	}
	return []string{placePinned, placeGPU}
}

// requester is who writes the requests.
func (c *collector) requester() string {
	if c.Features.GPUInitiated && len(c.gpus) > 0 {
		return "GPU threads or a CPU thread"
	}
	return "a CPU thread"
}

func (c *collector) filePath() Path {
	var remedies []string
	p := Path{ID: "file", Name: "file:", Status: OK, Payload: append([]string{"drive"}, c.onwards()...)}
	p.Requests = c.requester() + ", served by CPU threads through "
	if c.uring == nil {
		p.Requests += "io_uring"
	} else {
		p.Status = Limited
		p.Requests += "pread and pwrite"
		p.Notes = append(p.Notes, "io_uring is not available")
		remedies = append(remedies, "for io_uring: "+c.uringRemedy)
	}
	switch {
	case c.direct.Dir == "":
		p.Notes = append(p.Notes, "whether by O_DIRECT or through the page cache depends on the file's file system")
	case c.direct.Works:
		p.Notes = append(p.Notes, "by O_DIRECT, as for files in "+c.direct.Dir)
	default:
		p.Status = Limited
		p.Payload = slices.Insert(p.Payload, 1, "page cache")
		p.Notes = append(p.Notes, "a CPU copies each byte out of the page cache, as for files in "+c.direct.Dir+"; another file system may have O_DIRECT")
		remedies = append(remedies, "for O_DIRECT: "+directRemedy)
	}
	p.Remedy = strings.Join(remedies, "; ")
	return p
}

func (c *collector) memPath() Path {
	return Path{
		ID: "mem", Name: "mem:", Status: OK, Payload: append([]string{placeHost}, c.onwards()...),
		Requests: c.requester() + ", served by CPU threads, which copy", Notes: []string{"nothing is kept: for tests and limits"},
	}
}

func (c *collector) nvmePath() Path {
	p := Path{ID: "nvme", Name: "nvme:", Requests: c.requester() + ", served by the drive", Payload: append([]string{"drive"}, c.onwards()...)}
	in := func(s DriveState) int {
		n := 0
		for _, d := range c.drives {
			if d.State == s {
				n++
			}
		}
		return n
	}
	switch ready, free := in(DriveReady), in(DriveFree); {
	case ready > 0:
		p.Status, p.Notes = OK, []string{count(ready, "drive") + " ready"}
	case free > 0:
		p.Status, p.Notes = Limited, []string{count(free, "drive") + " free, in the kernel's hands"}
		p.Remedy = "give it to VFIO for as long as a command runs: --bind, as root"
	case len(c.drives) > 0:
		p.Status, p.Payload, p.Notes = Missing, nil, []string{fmt.Sprintf("none of %s can be used", count(len(c.drives), "drive"))}
		p.Remedy = listRemedy
	default:
		p.Status, p.Payload, p.Notes = Missing, nil, []string{"no drive on the PCI bus"}
		p.Remedy = driveRemedy
	}
	return p
}

// peerPath is the one past host memory. What the machine lacks for it is named, and that the program lacks it too, if so: then nothing that
// could be got helps.
func (c *collector) peerPath(r *Report) Path {
	p := Path{ID: "nvme-p2p", Name: "nvme: into GPU memory", Status: Missing, Requests: c.requester() + ", served by the drive"}
	var remedies []string
	need := func(met bool, what, remedy string) {
		if !met {
			p.Notes = append(p.Notes, what)
			remedies = append(remedies, remedy)
		}
	}
	need(c.Features.PeerToPeer, "this version of tritier has no such path: none of its ways to a drive can make GPU memory the drive's target, so that every payload passes host memory", "")
	need(len(c.gpus) > 0, "no GPU", "a GPU")
	if len(c.gpus) > 0 {
		export := slices.ContainsFunc(c.gpus, func(g gpu) bool { return g.attributes[cuda.GPUDirectRDMASupported].value > 0 })
		need(export, "no GPU offers its memory to other devices (GPUDirect RDMA)", "a data-centre or workstation GPU")
		need(c.exists("sys/module/gdrdrv"), "no kernel module that maps GPU memory for a drive (gdrcopy's gdrdrv)", "gdrcopy's kernel module: modprobe gdrdrv")
	}
	need(slices.ContainsFunc(c.drives, func(d Drive) bool { return d.State == DriveReady || d.State == DriveFree }), "no drive that nvme: could use", "a drive that nvme: can use")
	i := r.Item("vfio", "", "iommu")
	need(i != nil && i.Status == OK, "no IOMMU that lets a drive reach the GPU's addresses safely", "an IOMMU")
	switch {
	case len(p.Notes) == 0:
		p.Status, p.Payload = OK, []string{"drive", placeGPU}
	case !c.Features.PeerToPeer:
		p.Remedy = "nothing helps in this version: use nvme: by way of host memory"
	default:
		p.Remedy = strings.Join(remedies, "; ")
	}
	return p
}
