package partition

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestATouchedRunLeavesItsQueue until what it depends on is durable.
func TestATouchedRunLeavesItsQueue(t *testing.T) {
	m := newMachine(Config{Partition: 1})
	e := &entry{ref: store.Ref{Key: carillon.Key{Namespace: "n", Name: "j"}}, timer: -1, spec: []byte{1}}
	e.decoded = &carillon.Job{Target: carillon.Target{Worker: &carillon.WorkerTarget{Queue: "q"}}}
	e.state.Run = store.RunState{Live: true, Due: 1}
	m.due.enqueue(e, 2)
	if q := m.Queues.queue(*e.queue); e.place != ready || q.len() != 1 || m.due.byPriority()[0] != 1 {
		t.Fatalf("it is at %d, and %d wait", e.place, q.len())
	}
	m.due.touch(e)
	if e.place != blocked || m.Queues.queue(*e.queue).len() != 0 || !m.out.awaitsCommit(e) {
		t.Fatalf("it is at %d, and may go out", e.place)
	}
	if m.due.byPriority()[0] != 1 {
		t.Error("a blocked run does not count as due")
	}
	if m.due.enqueue(&entry{timer: -1, held: m.out.seq, ref: e.ref}, 3); len(m.due.blocked) != 2 {
		t.Error("a run was queued whose change is not durable")
	}
}
