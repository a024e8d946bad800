package copyeng

import "golang.org/x/sys/unix"

// physicalMemory is the machine's memory and swap in bytes.
func physicalMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 1 << 40
	}
	return (uint64(info.Totalram) + uint64(info.Totalswap)) * uint64(info.Unit)
}
