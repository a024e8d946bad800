package workload

// ProveFrom has graphs of so many vertices and more proved right; the call that it
// returns undoes that.
func ProveFrom(vertices uint64) (undo func()) {
	was := provedFrom
	provedFrom = vertices
	return func() { provedFrom = was }
}
