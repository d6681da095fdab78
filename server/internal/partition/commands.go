package partition

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Commands are the metadata records (store.KindCommand) of the commands that are done, or refused for good,
// and may come again: [message.Command]. The key is that of the job and the request, the value when that was,
// until when it is remembered, and the refusal. One without that time is kept until whoever gave the command
// has it forgotten, however long that takes.
type Commands struct {
	out     *builder
	decided map[string]decided // by key of the record
	// completed is, by namespace and request, which of them are completions of runs: the run may be gone, and
	// with it the name of its job, when one comes again.
	completed map[string]string
	timed     timedCommands // those that are kept for a time
	loaded    int64         // when they were loaded, UTC ns
}

// decided is what became of a command.
type decided struct {
	batch   uint64 // holds the record; 0: it was there at takeover
	until   int64  // UTC ns; 0: it is kept until it is forgotten
	refusal string // as in the record; empty: it is done
}

// commandGrace is how long after a takeover no record expires. The nodes may have been away for longer than
// commands are remembered; what was not acknowledged to a broker then comes again.
const commandGrace = int64(10 * time.Minute)

// Bounds of how many records expire at a time: with each one that is added, and by a sweep.
const (
	expireByAdd   = 2
	expireBySweep = 1000
)

func newCommands(out *builder) *Commands {
	return &Commands{out: out, decided: map[string]decided{}, completed: map[string]string{}}
}

// load takes the records, at takeover.
func (c *Commands) load(records []store.MetaRecord, now int64) {
	c.loaded = now
	for _, r := range records {
		d, _ := decidedOf(r.Value) // what is damaged is kept
		c.remember(r.Key, d)
		if d.until != 0 {
			c.timed = append(c.timed, timedCommand{d.until, r.Key})
		}
	}
	heap.Init(&c.timed)
}

// Len is how many commands are remembered.
func (c *Commands) Len() int { return len(c.decided) }

// add records that a command is done, for a time or until it is forgotten.
func (c *Commands) add(now int64, id message.CommandID, keepFor time.Duration) {
	c.decide(now, id, keepFor, "")
}

// decide records what became of a command.
func (c *Commands) decide(now int64, id message.CommandID, keepFor time.Duration, refusal string) {
	d := decided{refusal: refusal}
	if keepFor > 0 {
		d.until = now + int64(keepFor)
		heap.Push(&c.timed, timedCommand{d.until, commandKey(id)})
	}
	c.write(now, commandKey(id), d)
	c.expire(now, expireByAdd)
}

func (c *Commands) write(now int64, key string, d decided) {
	d.batch = c.out.seq
	c.remember(key, d)
	value := binary.AppendVarint(binary.AppendVarint(nil, now), d.until)
	c.out.write(store.MetaRecord{Kind: store.KindCommand, Key: key, Value: append(value, d.refusal...)})
}

// again reports whether a command is done already; err is its refusal. The record is then written once more,
// and the answer waits for that: if the store was reset to an older state, which has no such record, it
// refuses the batch.
func (c *Commands) again(now int64, id message.CommandID) (before bool, err error) {
	return c.againKey(now, commandKey(id))
}

// againKey is again by the key of the record.
func (c *Commands) againKey(now int64, key string) (before bool, err error) {
	d, known := c.decided[key]
	if !known {
		return false, nil
	}
	if d.batch == c.out.seq {
		c.out.await(d.batch)
	} else {
		c.write(now, key, d)
	}
	if d.refusal != "" {
		return false, refusalOf(d.refusal)
	}
	return true, nil
}

// Refuse records that a command is not done, ever, unless it is done already: before says so. If it was
// refused before, the error is that refusal.
func (c *Commands) Refuse(now int64, once Once, key carillon.Key,
	why *carillon.Error) (before bool, err error) {
	id := message.CommandID{Key: key, Request: once.Request}
	if before, err := c.again(now, id); before || err != nil {
		return before, err
	}
	c.decide(now, id, once.KeepFor, encodeRefusal(why))
	return false, nil
}

// encodeRefusal writes kind, field and message, with zeros between them.
func encodeRefusal(e *carillon.Error) string {
	clean := func(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?") }
	why := e.Message[:min(len(e.Message), message.MaxRefusal)]
	return e.Kind.String() + "\x00" + clean(e.Field) + "\x00" + clean(why)
}

// refusalOf reads what encodeRefusal has written.
func refusalOf(text string) *carillon.Error {
	part := strings.SplitN(text, "\x00", 3)
	return message.NewRefusal(part[0], part[1], part[2])
}

// Sweep removes records whose time is over, some at a time. The engine calls it now and then; so do commands
// that are added.
func (c *Commands) Sweep(now int64) { c.expire(now, expireBySweep) }

func (c *Commands) expire(now int64, most int) {
	if now-c.loaded < commandGrace {
		return
	}
	for ; most > 0 && len(c.timed) > 0 && c.timed[0].until <= now; most-- {
		t := heap.Pop(&c.timed).(timedCommand) //nolint:forcetypeassert // it has nothing else
		if d, known := c.decided[t.key]; known && d.until == t.until {
			c.remove(t.key)
		}
	}
}

func (c *Commands) remember(key string, d decided) {
	c.decided[key] = d
	if namespace, request, is := completionOf(key); is {
		c.completed[completionKey(namespace, request)] = key
	}
}

func (c *Commands) remove(key string) {
	delete(c.decided, key)
	if namespace, request, is := completionOf(key); is {
		delete(c.completed, completionKey(namespace, request))
	}
	c.out.write(store.MetaRecord{Kind: store.KindCommand, Key: key})
}

// timedCommand is a record that is kept until a time.
type timedCommand struct {
	until int64
	key   string
}

// timedCommands is a heap: the one whose time is over first is the first.
type timedCommands []timedCommand

func (h timedCommands) Len() int           { return len(h) }
func (h timedCommands) Less(i, j int) bool { return h[i].until < h[j].until }
func (h timedCommands) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *timedCommands) Push(x any) { *h = append(*h, x.(timedCommand)) } //nolint:forcetypeassert // ours

// Pop implements [heap.Interface].
func (h *timedCommands) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = timedCommand{}
	*h = (*h)[:last]
	return t
}

// Forget removes the records of commands that will not come again.
func (c *Commands) Forget(ids []message.CommandID) {
	for _, id := range ids {
		key := commandKey(id)
		if _, known := c.decided[key]; known {
			c.remove(key)
		}
	}
}

// PutOnce puts a job for a command, unless the command is done already. before says so.
func (js *Jobs) PutOnce(now int64, once Once, req message.PutRequest) (before bool, err error) {
	id := message.CommandID{Key: req.Job.Key(), Request: once.Request}
	if before, err := js.commands.again(now, id); before || err != nil {
		return before, err
	}
	if js.deletes([]message.PutRequest{req}) {
		js.seal() // the put does so, and what is written here belongs in its batch
	}
	if _, err := js.Put(now, req); err != nil {
		return false, err
	}
	js.commands.add(now, id, once.KeepFor)
	return false, nil
}

// DeleteOnce deletes a job for a command, unless the command is done already. before says so. That there is
// no such job is no error, unless a generation is asked for: it is not there afterwards either.
func (js *Jobs) DeleteOnce(now int64, once Once, key carillon.Key,
	ifGeneration uint64) (before bool, err error) {
	id := message.CommandID{Key: key, Request: once.Request}
	if before, err := js.commands.again(now, id); before || err != nil {
		return before, err
	}
	if js.records.find(key) != nil || ifGeneration != 0 {
		if _, err := js.Delete(now, key, carillon.IfGeneration(ifGeneration)); err != nil {
			return false, err
		}
	}
	js.commands.add(now, id, once.KeepFor)
	return false, nil
}

// TriggerOnce makes a run for a command, unless the command is done already. before says so.
func (js *Jobs) TriggerOnce(now int64, once Once, key carillon.Key, o carillon.TriggerOptions,
	trace delivery.Trace) (before bool, err error) {
	id := message.CommandID{Key: key, Request: once.Request}
	if before, err := js.commands.again(now, id); before || err != nil {
		return before, err
	}
	if _, err := js.Trigger(now, key, o, trace); err != nil {
		return false, err
	}
	js.commands.add(now, id, once.KeepFor)
	return false, nil
}

// DoneBefore reports whether a command of a job is done already; err is its refusal. If it is, the answer
// waits until that is durable.
func (c *Commands) DoneBefore(now int64, once Once, key carillon.Key) (before bool, err error) {
	return c.again(now, message.CommandID{Key: key, Request: once.Request})
}

// completionMark begins the request of a completion in its record.
const completionMark = "completion\x01"

// CompletedBefore is DoneBefore for the completion of a run, which names no job.
func (c *Commands) CompletedBefore(now int64, once Once, namespace string) (before bool, err error) {
	key, known := c.completed[completionKey(namespace, once.Request)]
	if !known {
		return false, nil
	}
	return c.againKey(now, key)
}

// Completed records that the completion of a run of a job is done.
func (c *Commands) Completed(now int64, once Once, key carillon.Key) {
	c.add(now, message.CommandID{Key: key, Request: completionMark + once.Request}, once.KeepFor)
}

// completionOf returns the namespace and the request of a completion, by the key of its record.
func completionOf(key string) (namespace, request string, is bool) {
	namespace, rest, _ := strings.Cut(key, "\x00")
	_, rest, _ = strings.Cut(rest, "\x00")
	request, is = strings.CutPrefix(rest, completionMark)
	return namespace, request, is
}

func completionKey(namespace, request string) string { return namespace + "\x00" + request }

// Once says how a command is remembered; see [message.Command].
type Once struct {
	Request string
	KeepFor time.Duration
}

func commandKey(id message.CommandID) string {
	return id.Key.Namespace + "\x00" + id.Key.Name + "\x00" + id.Request
}

// CommandOf returns which command a record of the kind store.KindCommand is about.
func CommandOf(r *store.MetaRecord) (message.CommandID, error) {
	part := strings.Split(r.Key, "\x00")
	if len(part) != 3 || part[2] == "" {
		return message.CommandID{}, errMetaKey
	}
	if _, err := decidedOf(r.Value); err != nil {
		return message.CommandID{}, err
	}
	return message.CommandID{Key: carillon.Key{Namespace: part[0], Name: part[1]}, Request: part[2]}, nil
}

// decidedOf reads the value of a record.
func decidedOf(value []byte) (d decided, err error) {
	_, size := binary.Varint(value) // when it was
	if size <= 0 {
		return d, fmt.Errorf("when the command was done: %w", store.ErrDamaged)
	}
	value = value[size:]
	d.until, size = binary.Varint(value)
	if size <= 0 || d.until < 0 {
		return decided{}, fmt.Errorf("until when the command is remembered: %w", store.ErrDamaged)
	}
	d.refusal = string(value[size:])
	if d.refusal != "" && strings.Count(d.refusal, "\x00") != 2 {
		return decided{}, fmt.Errorf("why the command was refused: %w", store.ErrDamaged)
	}
	return d, nil
}
