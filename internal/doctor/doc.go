// Package doctor finds out what a machine can do for tritier: driver, GPUs, links, pinned memory, IOMMU, drives, and the way that each
// byte would take. For each thing that is missing, the report says what that costs and how to get it.
//
// Nothing is changed, no GPU context is made, and no drive is opened for writing. Whatever is asked may fail or hang: a failure is an item
// of the report, and a probe that does not answer in time is left behind. A figure that is not known is said to be so.
//
// Everything is asked through a [Machine], whose probes and folders a test replaces. The package prints nothing.
package doctor
