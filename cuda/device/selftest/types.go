package selftest

// mail is the device's struct Mail.
type mail struct {
	kind  uint32
	tag   uint16
	_     uint16
	words [6]uint64
}
