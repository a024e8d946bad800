package soft_test

import (
	"path/filepath"
	"testing"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/nvmetest"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestConformanceOverFile runs the suite over files, by every way to reach one.
func TestConformanceOverFile(t *testing.T) {
	for name, x := range map[string]struct {
		file  soft.FileOptions
		block int
	}{
		"auto":             {},
		"512 bytes":        {block: 512},
		"page cache":       {file: soft.FileOptions{Direct: soft.DirectOff}, block: 512},
		"without io_uring": {file: soft.FileOptions{Engine: soft.EngineSync}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stall{}
			open := func(t testing.TB) libnvm.Transport {
				x.file.Size, x.file.BlockSize = 64<<20, x.block
				f, err := soft.OpenFile(filepath.Join(t.TempDir(), "disk"), x.file)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(f.Describe())
				return start(t, 0, soft.Config{Faults: s, CMBBytes: 1 << 20, Namespaces: []soft.NamespaceConfig{{Backend: f, BlockSize: x.block}}})
			}
			nvmetest.Run(t, open, nvmetest.Options{DoorbellStride: 64, CMB: true, DoorbellEvents: true, Stall: s.hold, Aborts: true})
		})
	}
}
