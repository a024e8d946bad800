package guest

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// debugExit is the I/O port of QEMU's isa-debug-exit device, which ends QEMU with status 2*value+1.
const debugExit = 0xf4

func outb(port uint16, v uint8)

// exit leaves QEMU with status 2*(0x10+code)+1, so that success (33) differs from QEMU's own errors (1) and from a crash of PID 1 (0).
func exit(code int) {
	unix.IoctlSetInt(1, unix.TCSBRK, 1) // drain the serial port
	// Debian's cloud kernel has no /dev/port, but it has ioperm, whose effect is per thread.
	runtime.LockOSThread()
	if _, _, e := unix.RawSyscall(unix.SYS_IOPERM, debugExit, 4, 1); e == 0 {
		outb(debugExit, uint8(0x10+min(code, 0x60)))
	}
	powerOff()
}
