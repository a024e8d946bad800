// Package drive opens NVMe drives by one name, whatever is behind them: memory
// or files served by the software controller, or a raw drive on the PCI bus.
//
//	mem:1GiB                      memory, empty, gone at Close
//	file:/data/disk               a file or block device
//	file:/data/disk?size=64GiB    the same, created or extended when writing is allowed
//	nvme:0000:01:00.0             a raw drive, through VFIO
//
// mem: and file: take block=BYTES, the block size. Options are separated by
// "&". In the path of file:, the bytes % ? & , are written %25 %3F %26 %2C.
//
// Nothing here writes to a file or drive: a file is opened read-only unless
// Options.Access says otherwise. A program that is about to overwrite what it
// did not create asks Drive.Content first.
package drive
