//go:build amd64 || arm64

package cuda

import (
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A thread that has used the dynamic linker ends without harm, as the threads
// of locked goroutines do: the process would crash.
func TestLinkerThreadsEnd(t *testing.T) {
	for range 10 {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				if _, err := linkerOpen("libthatisnotthere.so.9"); err == nil || !strings.Contains(err.Error(), "libthatisnotthere.so.9") {
					t.Error(err)
				}
				h, err := linkerOpen("libc.so.6")
				if err != nil {
					t.Error(err)
					return
				}
				if abs := linkerSymbol(h, "labs"); abs == 0 || callC(abs, []uintptr{^uintptr(4)}) != 5 {
					t.Errorf("labs is at %#x", abs)
				}
				if at := linkerSymbol(h, "no_such_function"); at != 0 {
					t.Errorf("a function that is not there, at %#x", at)
				}
			})
		}
		group.Wait()
	}
}
