//go:build amd64 || arm64

package cuda

// goroutine is the address of the calling goroutine's descriptor. It serves
// as a name only and is never followed.
func goroutine() uintptr
