// Package timed runs a machine of package servicetime in virtual time: a
// discrete-event simulation of threads that initiate, drives with queues and
// controllers, and links that transfers share.
//
// # What is simulated
//
// A request is a chain of stages, one after another. Each stage is a place with
// up to three limits:
//
//   - slots: so many requests at once, the others wait in order of arrival;
//   - shared time: each request takes its bytes over the bandwidth, and what a
//     controller or a thread needs for a command, of a time that all share;
//   - latency: a request takes at least so long, by itself, drawn from a
//     log-normal distribution where the model gives a spread.
//
// Payload crosses its links while the drive delivers it (cut-through): a request
// alone takes the longest of latency, drive and links, several share each link
// in order. A request holds its slot until its payload has arrived, so that a full
// link holds the drives back.
//
// Time is a whole number of nanoseconds; shared time is reckoned in 2^-16 of a
// picosecond, so that no rounding adds up. There is no clock and no random
// source: each latency is a hash of seed and request number.
//
// Two users drive it: Measure keeps so many requests in flight, as a benchmark
// does, and Replay gives the accesses of a trace their times, with the decisions
// of a tier.Machine.
//
// All figures that come out are modelled, never measured, and must be labelled so.
package timed
