//go:build !(linux && !android && (amd64 || arm64))

package cuda

import "runtime"

// openLibrary says that there is no driver for this system to load.
func openLibrary() (Backend, error) {
	return nil, &MissingLibraryError{
		Tried:  []string{"libcuda.so.1"},
		Reason: "this package loads it on Linux on amd64 and arm64 only, not on " + runtime.GOOS + "/" + runtime.GOARCH,
	}
}
