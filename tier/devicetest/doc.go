// Package devicetest checks the device side of tier: the GPU-orchestrated
// engine of tier/device, which GPUs, nvcc and g++ share.
//
// Its tests build that code with g++ and run it on CPU threads (rig/): one
// thread against tier.Machine, access by access the same decisions; many
// threads, and threads that stand for lanes, against a reference model of what
// every word must hold, with tiny tiers and injected faults, with and without
// sanitizers; and with mistakes put into the headers, which the rig must notice.
package devicetest
