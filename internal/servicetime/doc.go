// Package servicetime says how long the parts of a machine take: GPU memory,
// the PCIe link and NVMe drives. One schema and one set of presets serve the
// simulator (Estimate), paced software drives (Queue) and the tuner, so that a
// modelled time means the same everywhere.
//
// # Schema
//
// A Model is a YAML file, version 1, decoded strictly: an unknown field is an
// error. Every number is a Figure that carries its kind ("data sheet",
// "measured" or "assumed") and its source. Field names carry units:
// nanoseconds, bytes per second (10^9 is 1 GB/s), operations per second.
//
// # The edges of the three-tier hierarchy
//
//	t1        an access to GPU memory; access_bytes each
//	t2->t1    a page promoted from host memory
//	t1->t2    a page demoted to host memory
//	t3-read   a page read from the drives
//	t3-write  a page written to the drives
//	initiator the threads that issue NVMe commands
//
// Edges name the links that they cross; moves on a shared link add up. A model
// without a gpu part describes drives alone, to pace a software drive with.
//
// Everything that comes out of this package is modelled, never measured on the
// machine at hand, and must be labelled so where it is printed.
package servicetime
