package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tritier/tritier/internal/units"
)

// A trace in memory needs 4 bytes for each access, and a file about as many
// for the shortest records, but a compressed one is several times larger
// inside.
const (
	compressedFactor = 8
	memoryShare      = 2 // a trace may fill one half of the memory available
)

// streamReason says why a trace should not be loaded into memory, or "".
func streamReason(path, compression string) string {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	need, what := uint64(st.Size()), "the trace"
	if compression != "" {
		need, what = need*compressedFactor, "the trace, which is compressed,"
	}
	available := availableMemory()
	if need <= available/memoryShare {
		return ""
	}
	return what + " may not fit in half of the " + units.FormatBytes(available) + " of memory available: reading it once, without keeping it"
}

// availableMemory is the least of what the system, its control group and
// GOMEMLIMIT leave to this process, or the largest number when none of them
// can be read.
func availableMemory() uint64 {
	least := uint64(math.MaxUint64)
	if limit := userMemoryLimit; limit != math.MaxInt64 {
		least = uint64(limit)
	}
	if kib, ok := field("/proc/meminfo", "MemAvailable:"); ok {
		least = min(least, kib<<10)
	}
	return min(least, groupMemory())
}

// groupMemory is what the process's control group (version 2) has left.
func groupMemory() uint64 {
	group, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return math.MaxUint64
	}
	_, name, found := bytes.Cut(bytes.TrimSpace(group), []byte("0::"))
	if !found {
		return math.MaxUint64
	}
	folder := filepath.Join("/sys/fs/cgroup", string(name))
	limit, ok := number(filepath.Join(folder, "memory.max"))
	if !ok {
		return math.MaxUint64
	}
	used, _ := number(filepath.Join(folder, "memory.current"))
	return limit - min(used, limit)
}

// number reads a file that holds one number.
func number(file string) (uint64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil // "max" means no limit
}

// field reads the number behind a name at the start of a line.
func field(file, name string) (uint64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if rest, found := bytes.CutPrefix(line, []byte(name)); found {
			if f := bytes.Fields(rest); len(f) > 0 {
				n, err := strconv.ParseUint(string(f[0]), 10, 64)
				return n, err == nil
			}
		}
	}
	return 0, false
}
