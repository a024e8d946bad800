package pinned

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// linux is the kernel of the machine.
type linux struct{}

func machineKernel() kernel { return linux{} }

func machineRoot() fs.FS { return os.DirFS("/") }

func (linux) huge(mem []byte, on bool) error {
	if on {
		return unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	return unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
}

func (linux) dontFork(mem []byte) error { return unix.Madvise(mem, unix.MADV_DONTFORK) }

func (linux) populate(mem []byte) error {
	return os.NewSyscallError("madvise", unix.Madvise(mem, unix.MADV_POPULATE_WRITE))
}

// maxCPUs is the size of an affinity mask: more than any kernel is built for.
const maxCPUs = 8192

// errNoCPU says that none of a node's CPUs may be used: a control group or a parent's affinity excludes them.
var errNoCPU = errors.New("this process may use none of the node's CPUs")

func (linux) pin(cpus []int) (func() error, error) {
	before := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, before); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	wanted := unix.NewCPUSet(maxCPUs)
	for _, c := range cpus {
		if before.IsSet(c) {
			wanted.Set(c)
		}
	}
	if wanted.Count() == 0 {
		return nil, errNoCPU
	}
	if err := unix.SchedSetaffinityDynamic(0, wanted); err != nil {
		return nil, os.NewSyscallError("sched_setaffinity", err)
	}
	return func() error {
		err := unix.SchedSetaffinityDynamic(0, before)
		if err != nil { // a control group has taken all of those away meanwhile: all that it leaves, then
			before.Fill()
			err = unix.SchedSetaffinityDynamic(0, before)
		}
		return os.NewSyscallError("sched_setaffinity", err)
	}, nil
}

// interrupted says that a signal ended a call early.
func interrupted(err error) bool { return errors.Is(err, unix.EINTR) }

// unsupported tells a kernel or a container's filter that does not know a call from one that fails at it.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)
}
