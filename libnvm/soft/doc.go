// Package soft is an NVMe controller in software.
//
// Its registers, doorbells, admin and I/O queues lie in plain shared memory (one
// memfd, see Controller.File), so that any producer can be its host: the driver
// of package libnvm, a C++ program, or threads of a GPU that write submission
// entries and ring doorbells with 32-bit stores. N service threads poll the
// doorbells and move data between registered memory and one Backend per
// namespace.
//
// A host that wants many small commands served keeps several queues per thread
// full, rings once for many entries, and moves at most two pages with a command:
// reads and writes of a Memory then take a path without any bookkeeping per
// command (BenchmarkServe compares it with a bare copy loop), as long as Faults
// and Pacer are nil. A thread looks at its doorbells without a break for 100 us
// after the last command and then sleeps an eighth of the pause at a time, up to
// 10 ms (BenchmarkWake); Controller.CPUTime says what that costs.
package soft
