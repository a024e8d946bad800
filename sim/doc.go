// Package sim replays access traces through the three tiers in virtual time,
// with the policies and the page table that the live system runs.
//
// Open turns a trace into a Stream of densely numbered page accesses; Load
// collects one in memory. Replay runs many jobs (policy and tier sizes) over a
// trace in memory, ReplayStream over a trace of any length in one pass. Both
// use all cores and give results in the order of the jobs.
//
// The package has no clock and no global randomness: the same trace, jobs and
// seed give the same results, whatever the number of workers.
package sim
