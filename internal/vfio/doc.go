// Package vfio gives a program a PCI function through Linux's VFIO: its registers, its configuration space, and an IOMMU address space into
// which the program maps the memory that the function may touch.
//
// There are two interfaces to the same thing. [OpenGroup] uses the older one: an IOMMU group joins a container of type 1 (or, only when asked
// for by name, the no-IOMMU kind). [OpenCdev] uses the one of Linux 6.6: the function's own character device is bound to an iommufd and
// attached to an I/O address space.
//
// # Lifetimes
//
// A mapped region keeps the device open in the kernel: [Device.Close] unmaps all regions first, since a group with an open device refuses
// to be opened again. The function's access to memory ends with Close; memory that is still mapped then may be reused afterwards, not
// before. Closing resets the function, when it can be reset.
//
// # What is underneath
//
// Every system call goes through [System], so that a test puts a fake kernel beneath (package vfiofake). Sizes and offsets of the
// structures passed to the kernel are checked against its headers by a test.
package vfio
