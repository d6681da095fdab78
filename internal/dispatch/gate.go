package dispatch

import "github.com/carillonhq/carillon/internal/partition"

// Gate is the most deliveries of a queue that may be in flight at once, or of those of them that share a key. It is in
// force while a member that named it has its seats; the newest word counts for Most.
type Gate struct {
	Queue partition.Queue
	Key   string // "" = the whole queue
	Most  int
}
