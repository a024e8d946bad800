//go:build !linux

package copyeng

// physicalMemory is a bound that no machine of this kind reaches.
func physicalMemory() uint64 { return 1 << 40 }
