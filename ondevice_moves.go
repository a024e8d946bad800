package tritier

import (
	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/tier/layout"
)

// moves says who copies pages one way, and why.
func (o *onDevice) moves(d int) string { return o.e.Moves()[d].String() }

// The ways that pages go between T1 and host memory with engine gpu, as paths of
// Stats.Copies. Those by kernel name the reason when a copy engine was asked.
const (
	PathKernel          copyeng.Path = "kernel"               // as chosen
	PathCopyEngine      copyeng.Path = "copy-engine"          // on request
	PathKernelRingFull  copyeng.Path = "kernel (ring full)"   // no place for a request
	PathKernelNotServed copyeng.Path = "kernel (not served)"  // the CPU had not begun in time
	PathKernelNotCopied copyeng.Path = "kernel (copy failed)" // the CPU could not
)

var movePaths = map[int]copyeng.Path{layout.ByKernel: PathKernel, layout.ByCopyEngine: PathCopyEngine, layout.RingFull: PathKernelRingFull,
	layout.NotTaken: PathKernelNotServed, layout.Refused: PathKernelNotCopied}

// copies are pages by direction and way as what the copy engine of the other engine counts.
func copies(pages [2][layout.Ways]uint64, page uint64) (s copyeng.Stats) {
	for d, to := range []*map[copyeng.Path]copyeng.PathStats{&s.ToDevice, &s.ToHost} {
		*to = map[copyeng.Path]copyeng.PathStats{}
		for way, n := range pages[d] {
			if path := movePaths[way]; n > 0 && path != "" { // what was not answered has not moved
				(*to)[path] = copyeng.PathStats{Pages: int64(n), Bytes: int64(n * page)}
			}
		}
	}
	return s
}
