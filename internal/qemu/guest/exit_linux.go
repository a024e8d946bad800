package guest

import "golang.org/x/sys/unix"

// powerOff ends a guest that has no debug-exit device; the host sees status 0, which does not count as success.
func powerOff() {
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}
