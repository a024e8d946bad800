//go:build !cgo || !linux

package gpuinfo

// openNVML says that this build cannot reach NVML: go-nvml needs cgo.
func openNVML() (library, error) {
	return nil, &UnavailableError{What: "NVML", Reason: NoCgo}
}
