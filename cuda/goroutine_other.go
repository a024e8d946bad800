//go:build !(amd64 || arm64)

package cuda

// goroutine is 0 where there is no way to tell goroutines apart: Do then
// still works, and calls inside it set the context each time.
func goroutine() uintptr { return 0 }
