// Package gpuinfo tells what a GPU's surroundings are: its PCIe link, its memory apertures, the NUMA node and CPUs next to it, how busy
// and how hot it is, and what errors its memory had.
//
// There are two sources. NVML (the driver's management library) knows all of it; it is reached in builds with cgo only. The kernel's
// sysfs knows the link, the apertures and the neighbourhood, in every build. Each [Figure] names the source that it came from; one that
// neither source has carries the reasons of both instead of a value, and nothing is ever made up.
//
// NVML is loaded at first use and shut down by [Reader.Close]; all Readers of a process share it.
//
// A program that is built with cgo must be linked, and started, with lazy binding: go-nvml leaves NVML's functions undefined
// until the library has been loaded, so that a linker flag of -z now, or LD_BIND_NOW in the environment, ends such a program at its start.
package gpuinfo
