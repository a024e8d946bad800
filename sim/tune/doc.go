// Package tune searches placement policies and tier sizes for traces.
//
// # How
//
// Run draws candidates (Space), evaluates them on miniatures of the traces,
// keeps the better ones for larger miniatures (successive halving: Jamieson and
// Talwalkar, AISTATS 2016; miniatures: Waldspurger et al., USENIX ATC 2017),
// improves the best by single changes, and replays the finalists in full. It
// looks at the first part of each trace alone (training); what it reports of the
// second part (held out) it has not chosen by. The second part is counted in
// tiers that the first has warmed, as those of a live system would be.
//
// # Evaluations
//
// A Task is one evaluation: part of a trace, named by the hash of its content,
// a policy, sizes and a sampling rate. Evaluate is a pure function of Task and
// trace; both Task and Outcome are plain data and go through JSON unchanged. So
// an Evaluator may run tasks on this machine (Local), know them from an earlier
// run (Journal), or hand them to others.
//
// # Determinism
//
// There is no clock and no global randomness: the report is a function of the
// Problem and of its seed, whatever the Evaluator, the number of workers and
// whether an earlier run was resumed.
package tune
