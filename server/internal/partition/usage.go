package partition

import (
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Usage counts what namespaces with quotas have in the partition, and refuses puts for which the home of the
// quotas has given no room; package quota has the protocol. Nothing of it is stored: each term counts again,
// a page of the store at a time, while jobs come and go. Namespaces without quotas are not counted, but
// where a home asks that knows of other settings than the node; see [Usage.limited].
type Usage struct {
	cfg *Config
	all map[string]*usage // by namespace
}

// usage is that of one namespace.
type usage struct {
	used  message.Amount // of the jobs up to the name pos, until it is counted
	room  message.Amount // that may be used besides
	held  map[string]held
	stamp message.Stamp // of the newest message of the home

	// For a node that knows of no quotas, since it has not heard yet that they were set, or what the home says
	// is from before they were lifted. In UTC ns:
	until  int64 // it is counted until then
	forced int64 // it is held to its room until then

	counted bool
	pos     string // jobs up to this name are counted
	// The jobs behind pos that have changed since counting began: what they have, or gone. A page of the store
	// may or may not have them.
	changed map[string]int64
}

// held is room that is set aside for the share of a batch, until a time (UTC ns) by which it should have
// come.
type held struct {
	room  message.Amount
	until int64
	names map[string]bool // of the jobs
}

const (
	// heldFor is how long room is set aside for a share. A share that comes later uses more than there may be.
	heldFor = time.Minute
	// forcedFor is how long quotas of which the node has not heard are in force after the home has spoken of
	// them. It hears of settings within half of that.
	forcedFor = 10 * time.Second
)

// none stands for the payload of a job that is not there.
const none = -1

// known returns what is known of a namespace, from now on if nothing is.
func (us *Usage) known(namespace string) *usage {
	u := us.all[namespace]
	if u == nil {
		u = &usage{changed: map[string]int64{}, held: map[string]held{}}
		us.all[namespace] = u
	}
	return u
}

// limited returns the usage of a namespace that is held to its room; nil if it has no quotas of what it has.
// Quotas that were just set are in force as soon as the home has taken the room back, on nodes that have not
// heard of them as well. But not for long: its message may be late, and they are lifted.
func (us *Usage) limited(now int64, namespace string) *usage {
	if us.stores(namespace) {
		return us.known(namespace)
	}
	u := us.all[namespace]
	if u != nil && now >= u.until {
		delete(us.all, namespace)
		return nil
	}
	if u == nil || now >= u.forced {
		return nil
	}
	return u
}

// stores reports whether the namespace has quotas of what it has, as far as the node knows.
func (us *Usage) stores(namespace string) bool {
	s := us.cfg.Settings(namespace)
	return s != nil && s.Quotas.Stores()
}

// Changed looks again at the quotas of a namespace: one that has none any more is not counted.
func (us *Usage) Changed(namespace string) {
	if !us.stores(namespace) {
		delete(us.all, namespace)
	}
}

// Of returns what the partition has of a namespace, and has it counted from now on.
func (us *Usage) Of(now int64, namespace string) message.Usage {
	u := us.known(namespace)
	u.until = now + int64(forcedFor)
	room := u.room
	for batch, h := range u.held {
		if h.until < now {
			delete(u.held, batch)
			continue
		}
		room = room.Plus(h.room)
	}
	return message.Usage{Counted: u.counted, Used: u.used, Room: room, Stamp: u.stamp}
}

// Give takes room that the home has given. An answer that a later message of the home has overtaken counts
// for nothing.
func (us *Usage) Give(namespace string, r message.Room) {
	if u := us.all[namespace]; u != nil && r.Stamp.Compare(u.stamp) > 0 {
		u.stamp, u.room = r.Stamp, u.room.Plus(r.Room)
	}
}

// Recall gives up the room, for the home. It returns false if a later message of the home has overtaken this
// one.
func (us *Usage) Recall(now int64, namespace string, stamp message.Stamp) (message.Usage, bool) {
	u := us.known(namespace)
	if stamp.Compare(u.stamp) < 0 {
		return message.Usage{}, false
	}
	u.stamp, u.room, u.forced = stamp, message.Amount{}, now+int64(forcedFor)
	return us.Of(now, namespace), true
}

// Uncounted returns behind which name the jobs of a namespace are still to be counted; false: none are.
func (us *Usage) Uncounted(namespace string) (after string, ok bool) {
	u := us.all[namespace]
	if u == nil || u.counted {
		return "", false
	}
	return u.pos, true
}

// Count takes a page of the jobs behind a name, as the store has them; last says that it has no others.
// Everything that memory held when counting began must have been durable when the page was read. A page that
// was taken before counts for nothing.
func (us *Usage) Count(namespace, after string, page []store.Record, last bool) {
	u := us.all[namespace]
	if u == nil || u.counted || u.pos != after {
		return
	}
	for i := range page {
		r := &page[i]
		if _, newer := u.changed[r.Name]; !newer {
			u.add(1, r.State.Payload)
		}
		u.pos = r.Name
	}
	for name, payload := range u.changed {
		if !last && name > u.pos {
			continue
		}
		if payload != none {
			u.add(1, payload)
		}
		delete(u.changed, name)
	}
	if last {
		u.counted, u.changed = true, nil
	}
}

func (u *usage) add(jobs, bytes int64) {
	u.used.Jobs, u.used.Bytes = u.used.Jobs+jobs, u.used.Bytes+bytes
}

// moved records that a job has another payload now; none: it was not, or is not, there. The room is used
// for what is more; what is less comes back to the home when that asks.
func (us *Usage) moved(job carillon.Key, from, to int64) {
	if len(us.all) == 0 || from == to {
		return
	}
	u := us.all[job.Namespace]
	if u == nil {
		return
	}
	more := change(from, to)
	u.room = u.room.Minus(message.Amount{Jobs: max(0, more.Jobs), Bytes: max(0, more.Bytes)})
	u.hand(job.Name, message.Amount{}.Minus(more))
	switch {
	case u.counted || job.Name <= u.pos:
		u.used = u.used.Plus(more)
	default:
		u.changed[job.Name] = to
	}
}

// hand gives what a job has less now to the batch that is about to put it again. It may be as large as before
// then.
func (u *usage) hand(name string, less message.Amount) {
	if less == (message.Amount{}) {
		return
	}
	for batch, h := range u.held {
		if h.names[name] {
			h.room = h.room.Plus(less)
			u.held[batch] = h
			return
		}
	}
}

// change returns what it takes that a job has another payload.
func change(from, to int64) message.Amount {
	var a message.Amount
	if from == none {
		a.Jobs, from = 1, 0
	}
	if to == none {
		a.Jobs, to = a.Jobs-1, 0
	}
	a.Bytes = to - from
	return a
}

// need returns what a put of a job over e, nil if there is none, uses of its namespace's quotas: nothing if
// it has none. A job that exists uses what its data grows by.
func (js *Jobs) need(now int64, e *entry, j *carillon.Job) (need message.Amount) {
	if js.usage.limited(now, j.Namespace) == nil || strings.HasPrefix(j.Name, carillon.EventJobs) {
		return need // an event on its way to a webhook would hold up those of other namespaces
	}
	has := int64(none)
	if e != nil {
		has = e.state.Payload
	}
	need = change(has, message.Payload(j))
	return message.Amount{Jobs: need.Jobs, Bytes: max(0, need.Bytes)}
}

// fits returns a [message.RoomError] if there is no room for a put of a job over e, nil if there is none.
func (js *Jobs) fits(now int64, e *entry, j *carillon.Job) error {
	need := js.need(now, e, j)
	if need == (message.Amount{}) {
		return nil
	}
	return js.roomFor(j.Namespace, need)
}

func (js *Jobs) roomFor(namespace string, need message.Amount) error {
	if need.Fits(js.usage.all[namespace].room) {
		return nil
	}
	return &message.RoomError{Partition: js.cfg.Partition, Namespace: namespace, Want: need}
}

// fit returns what puts use, by namespace, or a [message.RoomError] if there is no room for all of them.
func (js *Jobs) fit(now int64, reqs []message.PutRequest) (all map[string]message.Amount, err error) {
	for i := range reqs {
		j := reqs[i].Job
		need := js.need(now, js.records.find(j.Key()), j)
		if need == (message.Amount{}) {
			continue
		}
		if all == nil {
			all = map[string]message.Amount{}
		}
		all[j.Namespace] = all[j.Namespace].Plus(need)
	}
	for namespace, need := range all {
		if err := js.roomFor(namespace, need); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Hold sets room aside for the share of a batch that is about to be decided, or returns a
// [message.RoomError].
func (js *Jobs) Hold(now int64, batch string, reqs []message.PutRequest) error {
	needs, err := js.fit(now, reqs)
	if err != nil {
		return err
	}
	for i := range reqs {
		u := js.usage.limited(now, reqs[i].Job.Namespace)
		if u == nil {
			continue
		}
		h, again := u.held[batch]
		if !again {
			need := needs[reqs[i].Job.Namespace]
			u.room = u.room.Minus(need)
			h = held{need, now + int64(heldFor), map[string]bool{}}
			u.held[batch] = h
		}
		h.names[reqs[i].Job.Name] = true
	}
	return nil
}

// Unhold makes room of what was set aside for the share of a batch, which is about to use it.
func (us *Usage) Unhold(batch string) {
	for _, u := range us.all {
		if h, ok := u.held[batch]; ok {
			u.room = u.room.Plus(h.room)
			delete(u.held, batch)
		}
	}
}
