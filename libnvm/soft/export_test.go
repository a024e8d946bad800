package soft

// General is the configuration without the fast path.
func (c Config) General() Config {
	c.general = true
	return c
}

// Fast is how many commands took the fast path.
func (c *Controller) Fast() uint64 {
	var n uint64
	for _, t := range c.threads {
		n += t.stats.fast.Load()
	}
	return n
}
