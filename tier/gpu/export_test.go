package gpu

// SetRecords makes the rings of engines to come have so many records, of which so many
// can wait, and returns what undoes it.
func SetRecords(count, room uint64) (undo func()) {
	c, r := recordCount, recordRoom
	recordCount, recordRoom = count, room
	return func() { recordCount, recordRoom = c, r }
}

// SetEvents does the same for rings of events.
func SetEvents(count, room uint64) (undo func()) {
	c, r := eventCount, eventRoom
	eventCount, eventRoom = count, room
	return func() { eventCount, eventRoom = c, r }
}
