package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

// holds complete what partitions know of why runs do not go on (partition/hold.go): who serves the queue in
// which a run waits, who holds the permits that it waits for. It is found out at the time of the read, on the
// caller's goroutine, and what cannot be found out in time is left out.
type holds struct {
	cfg        *Config
	partitions *partitions
	limiter    *limiter
	rateOf     func(delivery.Limit) (carillon.Rate, bool)
	paused     func() map[delivery.Queue]carillon.QueuePause
}

// held is what a round has read, and what its partition knows of why that does not go on.
type held[T any] struct {
	value T
	hold  *partition.Hold
}

// holdWithin bounds what is asked of others for one read.
const holdWithin = 500 * time.Millisecond

// complete returns why a run of a partition does not go on; nil if nothing keeps it. A reason that only the
// hub knows belongs into inQueue.
func (h *holds) complete(ctx context.Context, p *partitionRunner, hold *partition.Hold) *carillon.Hold {
	if hold == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, holdWithin)
	defer cancel()
	switch {
	case hold.Line != (delivery.Line{}):
		h.inLine(ctx, p, hold)
	case hold.Queue != (delivery.Queue{}):
		if pause, ok := h.paused()[hold.Queue.Plain()]; ok {
			inPausedQueue(hold, pause)
			break
		}
		h.inQueue(hold, h.cfg.Consumers(ctx, hold.Queue))
	}
	return &hold.Hold
}

// inPausedQueue says that the queue of a due run is paused, whoever may serve it.
func inPausedQueue(hold *partition.Hold, pause carillon.QueuePause) {
	hold.Code, hold.Text = carillon.HoldQueuePaused, queueText(hold.Queue)+" is paused"
	if pause.Note != "" {
		hold.Text += ": " + pause.Note
	}
	if pause.Since.After(hold.Since) {
		hold.Since = pause.Since
	}
}

// inQueue says why a due run is not handed out from its queue.
func (h *holds) inQueue(hold *partition.Hold, c delivery.Consumers) {
	q := hold.Queue
	sent := q.Sent()
	switch {
	case c.Leaving:
		hold.Code = carillon.HoldNodeLeaving
		hold.Text = fmt.Sprintf("node %q is about to end and hands out nothing more: another one will, or its next start",
			h.cfg.Node)
	case sent && c.PausedUntil.After(h.cfg.Now()):
		hold.Code, hold.Until = carillon.HoldBackoff, c.PausedUntil.UTC()
		hold.Text = backoffText(q, c)
	case !sent && c.N == 0:
		hold.Code = carillon.HoldNoConsumer
		if c.Left.After(hold.Since) {
			hold.Since = c.Left.UTC()
		}
		hold.Text = noConsumerText(h.cfg.Node, q, c)
	case !sent && c.N == c.Silent:
		hold.Code = carillon.HoldSilentWorkers
		hold.Text = fmt.Sprintf("%s of %s %s silent: an attempt ended without a sign of life, so %s", workersText(q, c.N),
			queueText(q), numbered(c.N, "is", "are"), numbered(c.N, "it gets no more before it sends something",
				"they get no more before they send something"))
	case c.Bound > 0 && c.Bounded >= c.Bound:
		hold.Code = carillon.HoldSlowStart
		hold.Text = fmt.Sprintf("node %q started with a backlog and has no more than %d runs in flight yet; the bound grows step by step",
			h.cfg.Node, c.Bound)
	case c.Shared:
		hold.Code = carillon.HoldSlowStart
		hold.Text = fmt.Sprintf("node %q started with a backlog and has no more than %d runs in flight yet, of which %s has its "+
			"share; the bound grows step by step", h.cfg.Node, c.Bound, queueText(q))
	case c.N > 0 && c.Credits == 0:
		hold.Code, hold.Text = carillon.HoldNoCredit, noCreditText(q, c)
	default:
		hold.Code, hold.Text = carillon.HoldStarting, "it is due, and about to be handed out"
	}
}

// inLine says how the limit stands that a due run has no permit of.
func (h *holds) inLine(ctx context.Context, p *partitionRunner, hold *partition.Hold) {
	l := hold.Line.Limit
	var what string
	hold.Code, what = limitText(l)
	most, limited := h.limiter.limitOf(l)
	stands, err := h.standing(ctx, message.LimitStands{Limit: l, From: p.number, Order: hold.Order})
	switch {
	case !limited:
		hold.Text = what + " is not limited any more, so the run is about to be handed out"
		return
	case l.IsRate():
		h.inRateLine(hold, what, stands, err)
		return
	case most == 0:
		hold.Text = fmt.Sprintf("the limit of %s is 0, so no run gets a permit", what)
		return
	case err != nil:
		hold.Text = fmt.Sprintf("it waits for one of the %d permits of %s", most, what)
		return
	}
	hold.Text = fmt.Sprintf("%s: %d of %d permits held", what, stands.Held, most) +
		holdersText(h.holders(ctx, l, stands.Holders), stands.Held)
	switch before := hold.Before + stands.Before; {
	case before == 0 && stands.Held < most:
		hold.Text += "; the run is about to get one"
	case before == 0:
		hold.Text += "; the run is the first that waits"
	default:
		hold.Text += fmt.Sprintf("; at least %s before it", several(before, "other run waits", "other runs wait"))
		if hold.Before > 0 {
			hold.Text += fmt.Sprintf(", first that of job %.64q", hold.First.Name)
		}
	}
}

// inRateLine says when the rate lets attempts begin for which a due run waits.
func (h *holds) inRateLine(hold *partition.Hold, what string, stands message.Standing, err error) {
	rate, _ := h.rateOf(hold.Line.Limit)
	hold.Text = fmt.Sprintf("%s: %s", what, rate)
	if err != nil || stands.Next == 0 {
		return
	}
	next := max(stands.Next, h.cfg.now())
	hold.Text += ", the next attempt may begin at about " + clockText(next)
	before := hold.Before + stands.Before
	if before == 0 {
		hold.Text += "; the run is the first that waits"
	} else {
		hold.Text += fmt.Sprintf("; at least %s before it", several(before, "other run waits", "other runs wait"))
	}
	if wait := float64(before) * float64(stands.Every); wait < float64(math.MaxInt64/4) {
		hold.Until = time.Unix(0, next+int64(wait)).UTC()
	}
}

// standing asks whoever counts the permits of a limit: the node's counter, or in a cluster the limit's home.
func (h *holds) standing(ctx context.Context, q message.LimitStands) (stands message.Standing, err error) {
	if h.partitions.peers == nil && !q.IsRate() {
		h.limiter.locked(func(c *permit.Counter) { stands = c.Standing(q) })
		return stands, nil
	}
	home := h.partitions.parts[permitrecord.HomeOf(q.Limit, len(h.partitions.parts))]
	return across(ctx, h.partitions, home, q)
}

// holders returns a few of the runs that hold permits of a limit, as the store has it: that is durable before
// they are handed out. What cannot be read is left out.
func (h *holds) holders(ctx context.Context, l delivery.Limit, partitions []int) (some []store.Ref) {
	const most = 8
	for _, number := range partitions {
		if number < 0 || number >= len(h.partitions.parts) || len(some) >= most {
			break
		}
		records, err := h.partitions.reader(h.partitions.parts[number]).MetaRecords(ctx, store.MetaQuery{
			Kind: store.KindLimited, Prefix: permitrecord.HeldPrefix(l), Limit: most - len(some)})
		if err != nil {
			break
		}
		some = append(some, partition.LimitedRefs(records)...)
	}
	return some
}

// serveLimitStands answers for a limit whose home is the partition.
func serveLimitStands(ctx context.Context, p *partitionRunner, m message.LimitStands) (any, error) {
	if p.e.peers == nil && !m.IsRate() {
		return nil, noHomes()
	}
	return inRoundSeq(ctx, p, call{relayed: true},
		func(p *partitionRunner, _ int64) (message.Standing, uint64, error) {
			p.permits.tick()
			return p.permits.home.Standing(m), 0, nil
		})
}

// missing adds to the reason of a job that waits for others which of those do not exist.
func missing(st *carillon.JobStatus) {
	if st != nil && st.Hold != nil && st.Hold.Code == carillon.HoldDependsOn && len(st.Missing) > 0 {
		st.Hold.Text += fmt.Sprintf("; there is no %s", partition.JobsText(st.Missing))
	}
}

// unserved returns why a run does not go on of which only the store could tell, since its partition refused
// the read with an error; stored is what its state tells.
func unserved(number int, stored *partition.Hold, refusal error) *carillon.Hold {
	if stored == nil || refusal == nil {
		return nil
	}
	switch stored.Code {
	case carillon.HoldPaused, carillon.HoldDependsOn, carillon.HoldNotDue, carillon.HoldRetrying:
		return &stored.Hold
	}
	hold := stored.Hold
	if errors.Is(refusal, message.ErrNotOwner) {
		hold.Code = carillon.HoldPartitionUnowned
		hold.Text = fmt.Sprintf("no node that can be reached owns partition %d, to which the run belongs", number)
		return &hold
	}
	hold.Code = carillon.HoldStoreAway
	hold.Text = fmt.Sprintf("partition %d, to which the run belongs, is not served: %s", number, errorText(refusal))
	return &hold
}

// inList returns what a list says of why a run of a job does not go on: what is stored, but for times, which
// the list has anyway.
func inList(j *carillon.Job, s *store.State, now int64) *carillon.Hold {
	hold := partition.StoredHold(j, s, now)
	switch {
	case hold == nil:
		return nil
	case hold.Line != (delivery.Line{}):
		var what string
		hold.Code, what = limitText(hold.Line.Limit)
		hold.Text = "it waits for a permit of " + what
		if hold.Line.IsRate() {
			hold.Text = "it waits for the " + what
		}
	case hold.Queue != (delivery.Queue{}):
		hold.Code = carillon.HoldStaged
		hold.Text = fmt.Sprintf("it is due and waits in the store for %s", queueText(hold.Queue))
	case hold.Code == carillon.HoldNotDue, hold.Code == carillon.HoldStarting:
		return nil
	}
	return &hold.Hold
}
