package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Told is what was told last of nodes and of queues that are unserved, as of the batch that is being
// filled. So the next owner of Home tells nothing twice, and nothing that has happened between two owners
// is left out:
//
//	what is seen --compared with what was told--> events, and what was told, in one batch
//
// Each is a metadata record (store.KindTold). The machine of another partition than Home has none.
type Told struct {
	out    *builder
	events *EventLog
	all    map[string]store.Told // by key: of a node toldNode and its name, of a queue toldQueue and its String
}

const (
	toldNode  = "node/"
	toldQueue = "queue/"
)

// MostToldQueues is how many unserved queues are told of at a time.
const MostToldQueues = 1000

// SeenNode is a node that lives.
type SeenNode struct {
	Name    string
	Nonce   uint64 // of its process, not 0
	Leaving bool   // it has said that it leaves
}

// UnservedQueue is a queue in which runs wait and that nobody serves.
type UnservedQueue struct {
	Queue delivery.Queue
	Since int64 // UTC ns
	Long  bool  // it has been so for as long as its namespace has set
}

// DecodeTold decodes metadata records of kind store.KindTold, by key.
func DecodeTold(records []store.MetaRecord) (map[string]store.Told, error) {
	all := make(map[string]store.Told, len(records))
	for _, r := range records {
		told, err := codec.DecodeTold(r.Value)
		if err != nil {
			return nil, fmt.Errorf("what was told of %q: %w", r.Key, err)
		}
		all[r.Key] = told
	}
	return all, nil
}

// Nodes tells which nodes have joined, left and were lost, if these are all that live.
func (t *Told) Nodes(now int64, nodes []SeenNode) {
	live := make(map[string]store.Told, len(nodes))
	for _, n := range nodes {
		live[toldNode+n.Name] = store.Told{Nonce: n.Nonce, Leaving: n.Leaving}
	}
	for _, key := range t.keys(toldNode) {
		if was := t.all[key]; live[key].Nonce != was.Nonce { // it is gone, or another process has its name
			e := store.Event{Type: carillon.EventNodeLost, Node: key[len(toldNode):]}
			if was.Leaving {
				e.Type = carillon.EventNodeLeft
			}
			t.tell(now, e)
			t.forget(key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(live)) {
		was, known := t.all[key]
		if !known {
			t.tell(now, store.Event{Type: carillon.EventNodeJoined, Node: key[len(toldNode):]})
		}
		if is := live[key]; is != was {
			t.write(key, is)
		}
	}
}

// Queues tells which queues have been unserved for long, and which of those are so no longer, if these are
// all that are unserved. A queue that was told of stays so until it is served, whoever has seen it first.
func (t *Told) Queues(now int64, unserved []UnservedQueue) {
	seen := make(map[string]UnservedQueue, len(unserved))
	for _, u := range unserved {
		seen[toldQueue+u.Queue.String()] = u
	}
	told := t.keys(toldQueue)
	for _, key := range told {
		if _, still := seen[key]; !still {
			q := delivery.ParseQueue(key[len(toldQueue):])
			t.tell(now, queueEvent(carillon.EventQueueServed, q, t.all[key].Since))
			t.forget(key)
		}
	}
	room := MostToldQueues - len(t.keys(toldQueue))
	for _, u := range slices.SortedFunc(maps.Values(seen), func(a, b UnservedQueue) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), a.Queue.Compare(b.Queue))
	}) {
		key := toldQueue + u.Queue.String()
		if _, known := t.all[key]; known || !u.Long || room <= 0 {
			continue
		}
		room--
		t.tell(now, queueEvent(carillon.EventQueueUnserved, u.Queue, u.Since))
		t.write(key, store.Told{Since: u.Since})
	}
}

func queueEvent(what carillon.EventType, q delivery.Queue, since int64) store.Event {
	return store.Event{Type: what, Key: carillon.Key{Namespace: q.Namespace}, Queue: q.Address,
		QueueKind: q.Kind, From: since}
}

// keys returns the keys with a prefix, sorted.
func (t *Told) keys(prefix string) (keys []string) {
	for key := range t.all {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// tell records an event, if somebody watches or webhooks ask for it.
func (t *Told) tell(now int64, e store.Event) {
	if t.events.on(now, e.Type) {
		t.events.add(now, e)
	}
}

func (t *Told) write(key string, told store.Told) {
	t.all[key] = told
	t.out.write(store.MetaRecord{Kind: store.KindTold, Key: key, Value: codec.AppendTold([]byte{}, &told)})
}

func (t *Told) forget(key string) {
	delete(t.all, key)
	t.out.write(store.MetaRecord{Kind: store.KindTold, Key: key})
}
