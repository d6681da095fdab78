package message

// RecordEvents has a partition record what happens in it, because somebody watches. The reply is the number
// of the newest record: what happens after the reply is in those after it. With Again, somebody watches
// already, and events are to be recorded for longer; the reply is then the number of the record after which
// nothing is missing.
type RecordEvents struct{ Again bool }

func (RecordEvents) message()       {}
func (RecordEvents) replies(uint64) {}
