package tritier

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/tritier/tritier/internal/smallfile"
)

//go:embed cuda/device/*.cuh bamio/device/*.cuh tier/device/*.cuh
var headerFiles embed.FS

// Headers are the device headers by name, for kernels that use arrays (#include
// "tier.cuh"), queues of drives ("bamio.cuh") or only named atomics ("tritier.cuh").
// nvcc and clang take them, C++17.
func Headers() (map[string][]byte, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(headerFiles, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		base := path.Base(name)
		if all[base] != nil {
			return fmt.Errorf("two device headers are called %s", base)
		}
		all[base], err = headerFiles.ReadFile(name)
		return err
	})
	return all, err
}

// WriteHeaders writes the device headers into a folder, which it makes. Files of these
// names there are replaced, each as a whole, and nothing else is touched.
func WriteHeaders(dir string) error {
	all, err := Headers()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		// What stops one, a full disk for instance, stops the rest, and is said once.
		if err := smallfile.Replace(filepath.Join(dir, name), all[name]); err != nil {
			return err
		}
	}
	return nil
}
