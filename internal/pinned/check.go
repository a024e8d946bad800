package pinned

import (
	"errors"
	"fmt"
	"runtime"
)

// reserved returns what a pool of size bytes needs so that the machine is not left without any memory: page tables, the driver's
// records and a little for everybody else come on top.
func reserved(size uint64) uint64 {
	const least = 64 << 20
	return size + size/64 + min(size, least)
}

// Check compares a pool of size bytes on a node (-1 for any) with every limit but RLIMIT_MEMLOCK, to which the CUDA driver is not subject
// (VFIO is: see [HostLimits.Memlock]). Of RLIMIT_AS and RLIMIT_DATA a part stays for the program (see [HostLimits.Largest]). The error
// holds a [*LimitError] for each limit that it does not fit.
func (l *HostLimits) Check(size uint64, node int) error {
	return errors.Join(l.checkProcess(size), l.checkMemory(size), l.checkCgroups(size), l.checkNode(size, node))
}

// Largest returns the bytes of the largest pool that [HostLimits.Check] lets pass, which leaves the program room to go on: of RLIMIT_AS and
// RLIMIT_DATA a sixteenth of what is left, and at least 256 MiB; of RLIMIT_AS at least 72 MiB more for each of GOMAXPROCS + 8 threads.
func (l *HostLimits) Largest(node int) uint64 {
	var low, high uint64 = 0, 1 << 60
	for low < high { // 60 rounds
		mid := low + (high-low+1)/2
		if l.Check(mid, node) == nil {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

func (l *HostLimits) checkMemory(size uint64) error {
	return fits(LimitMemory, "", reserved(size), l.Available, "choose a smaller pool, or end programs that hold memory")
}

func (l *HostLimits) checkCgroups(size uint64) error {
	var errs []error
	for _, c := range l.Cgroups {
		errs = append(errs, fits(limitCgroup+c.File, c.Path, reserved(size), c.Left(), "raise the limit of this control group (a container's or job's memory limit), or choose a smaller pool"))
	}
	return errors.Join(errs...)
}

// checkProcess compares the addresses and mappings that the pool takes. Those are counted while [kernel].reserve still holds the
// ends that it cuts off, and a registration that cannot be undone leaves one mapping more.
func (l *HostLimits) checkProcess(size uint64) error {
	const maps = 4
	mapped := size + max(l.HugePages.Bytes, ChunkAlign)
	errs := []error{
		fitsProcess(LimitAddressSpace, mapped, left(l.AddressSpace.Soft, l.VirtualSize), "ulimit -v unlimited"),
		fitsProcess(LimitData, mapped, left(l.Data.Soft, l.DataSize), "ulimit -d unlimited"),
		fits(LimitMaps, "", maps, left(l.MaxMaps, l.Maps), fmt.Sprintf("raise it: sysctl vm.max_map_count=%d", 2*min(l.MaxMaps, 1<<30))),
	}
	if l.Overcommit == 2 {
		errs = append(errs, fits(LimitCommit, "", mapped, left(l.CommitLimit, l.Committed), "it is 2, which limits what may be promised: raise vm.overcommit_ratio or vm.overcommit_kbytes, or set vm.overcommit_memory=0"))
	}
	return errors.Join(errs...)
}

const (
	// heapSpare is room for some arenas of Go's heap, 64 MiB of addresses each, and for what libraries allocate.
	heapSpare = 256 << 20
	// threadSpare is what a thread takes of addresses: 8 MiB of stack, and 64 MiB that glibc's malloc reserves for a thread that calls it.
	threadSpare = 72 << 20
	// otherThreads are those that the Go runtime has beside the GOMAXPROCS that run goroutines.
	otherThreads = 8
)

// spare returns what a pool leaves of a limit of the process: Go ends a program whose heap cannot grow or whose thread cannot start, and
// no error comes before that. It is a sixteenth of what is left, and at least heapSpare; of addresses, room for threads too.
func spare(limit string, left uint64) uint64 {
	least := uint64(heapSpare)
	if limit == LimitAddressSpace {
		least += threadSpare * uint64(runtime.GOMAXPROCS(0)+otherThreads)
	}
	return max(left/16, least)
}

func fitsProcess(limit string, mapped, left uint64, raise string) error {
	if left == Unlimited {
		return nil
	}
	s := spare(limit, left)
	return fits(limit, "", mapped+s, left, fmt.Sprintf("raise it: %s; what is needed includes %s for the program's heap and threads, without which Go ends it", raise, formatBytes(s)))
}

func (l *HostLimits) checkNode(size uint64, node int) error {
	if node < 0 || node == 0 && len(l.Nodes) == 0 { // a kernel without NUMA has node 0 only
		return nil
	}
	n, err := l.Node(node)
	if err != nil {
		return err
	}
	on := fmt.Sprintf("node %d", node)
	if !l.allows(node) {
		return &LimitError{LimitAllowedNodes, on, 0, reserved(size), fmt.Sprintf("this process may take memory from the nodes %v only: change its cpuset or numactl's choice", l.AllowedNodes)}
	}
	return fits(LimitNode, on, reserved(size), n.Available(), "choose a smaller pool, another node or placement that is not strict")
}

// pinLimit returns RLIMIT_MEMLOCK's error when that limit would stop size bytes from being pinned by a driver that is subject to it.
func (l *HostLimits) pinLimit(size uint64) *LimitError {
	if l.LockExempt || l.Memlock.Soft >= size {
		return nil
	}
	return &LimitError{LimitMemlock, "", l.Memlock.Soft, size, "VFIO and io_uring count pinned memory against it: raise it (ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit) or give the process CAP_IPC_LOCK"}
}

func fits(limit, on string, need, have uint64, hint string) error {
	if need <= have {
		return nil
	}
	return &LimitError{limit, on, have, need, hint}
}

// left returns what remains of a limit.
func left(limit, used uint64) uint64 {
	if limit == Unlimited {
		return Unlimited
	}
	return limit - min(limit, used)
}
