// Package libnvm is a user-space NVMe driver.
//
// It is passive: it has no goroutines and no threads, and nothing moves unless
// the caller polls. A Controller is brought up over a Transport (a drive behind
// VFIO, or the software controller of package soft), gives out Namespaces and
// QueuePairs, and a QueuePair takes Requests and hands back Completions. The
// way from Submit to Poll allocates nothing.
//
// # Who may call what
//
// A QueuePair belongs to one goroutine at a time and has no locks; different
// queue pairs are independent. Methods of Controller that send admin commands
// lock the admin queue and may be called from any goroutine. Controller.Reset
// and Controller.Close end every queue pair's commands, so no owner may be
// inside a method of a queue pair while they run.
//
// # Lifetime of memory
//
// Memory of an outstanding request belongs to the controller. A request that
// times out is not over for the controller: its memory and its command ids are
// quarantined until the queue pair or the controller was reset, Memory.Free
// returns ErrMemoryHeld until then, and a completion that comes late is
// counted, never delivered. When no reset can succeed, since the drive is gone
// or does not answer, Transport.Close ends the quarantine: it takes the device's
// access to memory away, and Free works after it.
//
// # Errors
//
// A completion with a status other than success becomes a *StatusError. A wait
// that runs out is a *TimeoutError. A controller whose registers read all ones
// is gone, *DeviceGoneError; one that reports CSTS.CFS is a
// *ControllerFatalError and may be reset; one that is not ready although the
// driver has enabled it, since something else has reset it or since its
// registers read zero, is a *NotReadyError.
package libnvm
