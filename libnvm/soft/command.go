package soft

// command is one command between its fetch and its completion.
type command struct{}
