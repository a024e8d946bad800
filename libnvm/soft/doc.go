// Package soft is an NVMe controller in software.
//
// Its registers, doorbells, admin and I/O queues lie in plain shared memory (one
// memfd, see Controller.File), so that any producer can be its host: the driver
// of package libnvm, a C++ program, or threads of a GPU that write submission
// entries and ring doorbells with 32-bit stores. N service threads poll the
// doorbells and move data between registered memory and one Backend per
// namespace.
package soft
