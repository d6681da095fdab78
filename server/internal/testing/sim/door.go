package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// door is where calls go into a node's engine. Calls that waited for the same thing, such as the next owner
// of a partition, wake at one nanosecond, in an order that depends on the machine. Here each waits for a
// nanosecond of its own, in the order in which they came and, of those that came at once, in that of their
// names.
type door struct {
	actor int

	mu     sync.Mutex
	queues map[int64]*queue // by the moment at which they are let in
}

// queue is the calls that are let in at a moment.
type queue struct {
	all  []knock
	left int // how many are still to learn their place
}

// knock is a call at the door.
type knock struct {
	at   int64 // when it came
	name string
}

// enter returns when it is the call's turn.
func (d *door) enter(name string) {
	now := time.Now().UnixNano()
	wait, k := aligned(d.actor, 0), knock{now, name}
	opens := now + int64(wait)
	d.mu.Lock()
	if d.queues == nil {
		d.queues = map[int64]*queue{}
	}
	q := d.queues[opens]
	if q == nil {
		q = &queue{}
		d.queues[opens] = q
	}
	q.all, q.left = append(q.all, k), q.left+1
	d.mu.Unlock()
	time.Sleep(wait) // whoever goes in at that moment has come before it
	time.Sleep(time.Duration(min(d.place(opens, k), doorway-1)))
}

// place is how many calls go in before, of those at the same moment.
func (d *door) place(opens int64, k knock) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[opens]
	if q.left--; q.left == 0 {
		delete(d.queues, opens)
	}
	before := slices.DeleteFunc(slices.Clone(q.all), func(o knock) bool { return o.compare(k) >= 0 })
	slices.SortFunc(before, knock.compare)
	return len(slices.Compact(before))
}

func (k knock) compare(o knock) int {
	return cmp.Or(cmp.Compare(k.at, o.at), cmp.Compare(k.name, o.name))
}

// caller is the key of a context's value that tells calls apart.
type caller struct{}

// calling says who calls.
func calling(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, caller{}, who)
}

// enter is for [engine.Config] and [cluster.Config].
func (n *node) enter(ctx context.Context, partition int, of string) {
	who, _ := ctx.Value(caller{}).(string)
	n.door.enter(fmt.Sprintf("%s/%d/%s", who, partition, of))
}

// attempt is for [httptarget.Options].
func (n *node) attempt(r *carillon.Run) { n.door.enter(fmt.Sprintf("%s/%d", r.ID, r.Attempt)) }
