package message

// RecordEvents has a partition record what happens in it, because somebody watches. The reply is the number
// of the newest record: what happens after the reply is in those after it. With Again, somebody watches
// already, and events are to be recorded for longer.
type RecordEvents struct{ Again bool }

func (RecordEvents) message()       {}
func (RecordEvents) replies(uint64) {}
