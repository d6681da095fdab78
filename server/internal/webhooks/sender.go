package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// Engine is what the engine of the node tells, and keeps.
type Engine interface {
	// OwnsHome reports whether this node is in charge of webhooks.
	OwnsHome() bool
	// Hooked returns the namespaces that have webhooks.
	Hooked() []*carillon.Namespace
	// FollowWanted calls f with what happens from a position on, or from now on; as Watch does.
	FollowWanted(ctx context.Context, position string, f func(carillon.EventBatch) error) error
	// WebhooksPosition returns the durable position; empty: none.
	WebhooksPosition(ctx context.Context) (string, error)
	SetWebhooksPosition(ctx context.Context, position string) error
}

// Options say what a sender works with.
type Options struct {
	Engine Engine
	// Put stores a job, wherever its partition is.
	Put func(ctx context.Context, j carillon.Job, o ...carillon.PutOption) (carillon.PutResult, error)
	// Supports returns an error about a target of a kind that this node has no client of: events for it wait
	// until another node is in charge. The function may be nil.
	Supports func(t *carillon.Target) error
	Now      func() time.Time
	Log      *slog.Logger
	// Told counts events that were made jobs, Refused those of which no job could be made, Missed gaps.
	Told, Refused, Missed func()
}

// Sender tells webhooks while this node is in charge.
type Sender struct{ o Options }

// New returns a sender.
func New(o Options) *Sender { return &Sender{o} }

// Times of a sender.
const (
	lookEvery  = time.Second      // whether this node is in charge, and whether there are webhooks
	againFirst = time.Second      // before something is tried again that failed
	againLast  = 30 * time.Second // the same, if it fails again and again
	saveEvery  = time.Second      // the position, while events are told
	saveIdle   = time.Minute      // the same, while there are none for webhooks
	putsAtOnce = 16               // jobs of one batch that are put concurrently
)

// Run tells webhooks until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var told sync.WaitGroup
	var end context.CancelFunc // of the telling; nil: there is none
	stop := func() {
		if end != nil {
			end()
			told.Wait()
			end = nil
		}
	}
	defer stop()
	forgotten := false // since this node is in charge and there are no webhooks
	for {
		switch inCharge, hooks := s.o.Engine.OwnsHome(), len(s.o.Engine.Hooked()) > 0; {
		case !inCharge:
			stop()
			forgotten = false
		case !hooks:
			stop()
			forgotten = forgotten || s.forget(ctx)
		case end == nil:
			forgotten = false
			telling, cancel := context.WithCancel(ctx)
			end = cancel
			told.Go(func() { s.tell(telling) })
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// forget drops the position, as there are no webhooks: those that come later are told what happens from
// then on. It reports whether that has succeeded.
func (s *Sender) forget(ctx context.Context) bool {
	position, err := s.o.Engine.WebhooksPosition(ctx)
	if err == nil && position != "" {
		err = s.o.Engine.SetWebhooksPosition(ctx, "")
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Debug("the position of webhooks could not be dropped", "error", err)
	}
	return err == nil
}

// tell tells what happens until ctx ends.
func (s *Sender) tell(ctx context.Context) {
	again := backoff{}
	for {
		err := s.follow(ctx, &again)
		if ctx.Err() != nil {
			return
		}
		again.log(s.o.Log, "events do not reach webhooks at present: this is tried again", err)
		if !again.wait(ctx) {
			return
		}
	}
}

// follow tells what happens from the durable position on, until ctx ends or something fails.
func (s *Sender) follow(ctx context.Context, again *backoff) error {
	position, err := s.o.Engine.WebhooksPosition(ctx)
	if err != nil {
		return err
	}
	p := &progress{sender: s, position: position}
	err = s.o.Engine.FollowWanted(ctx, position, func(b carillon.EventBatch) error {
		again.reset()
		return p.take(ctx, &b)
	})
	if ctx.Err() != nil {
		p.end(ctx)
		return err
	}
	if !errors.Is(err, carillon.FailedPrecondition) && !errors.Is(err, carillon.DataLoss) {
		return err
	}
	s.o.Log.Error("events may be missing that webhooks have asked for: they were not sent before they were deleted, or are damaged",
		"error", err)
	s.o.Missed()
	if err := s.put(ctx, s.gap()); err != nil {
		return err
	}
	return s.o.Engine.SetWebhooksPosition(ctx, "")
}

// gap is what all webhooks are sent if events may be missing.
func (s *Sender) gap() (all []carillon.Job) {
	now := s.o.Now()
	for _, n := range s.o.Engine.Hooked() {
		for i := range n.Webhooks {
			e := carillon.Event{ID: "missed-" + strconv.FormatInt(now.UnixNano(), 10), Type: missed, Time: now,
				Namespace: n.Name}
			all = s.add(all, n, &n.Webhooks[i], &e)
		}
	}
	return all
}

// add adds the job that sends an event to a webhook.
func (s *Sender) add(all []carillon.Job, n *carillon.Namespace, w *carillon.Webhook,
	e *carillon.Event) []carillon.Job {
	j, err := jobOf(n.Name, w, e)
	if err != nil {
		s.refuse(&j, err)
		return all
	}
	return append(all, j)
}

// progress is the telling from one position on.
type progress struct {
	sender   *Sender
	position string    // that is durable
	at       time.Time // when it was written
	told     bool      // jobs have been put since
	reached  string    // the position up to which jobs have been put; empty: none yet
}

// saveWithin bounds how long the end of a sender waits for its position to be written.
const saveWithin = 2 * time.Second

// end notes the position when the sender ends in order, so that nothing is told again: after a move to
// another number of partitions it would have another id. If it cannot be noted, some of it is told again.
func (p *progress) end(ctx context.Context) {
	if p.reached == "" || p.reached == p.position || !p.sender.o.Engine.OwnsHome() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
	defer cancel()
	if err := p.sender.o.Engine.SetWebhooksPosition(ctx, p.reached); err != nil {
		p.sender.o.Log.Debug("the position of webhooks could not be noted at the end", "error", err)
	}
}

// take has the events of a batch sent, and notes its position now and then.
func (p *progress) take(ctx context.Context, b *carillon.EventBatch) error {
	s, jobs := p.sender, []carillon.Job(nil)
	for _, n := range s.o.Engine.Hooked() {
		for i := range n.Webhooks {
			for k := range b.Events {
				if w, e := &n.Webhooks[i], &b.Events[k]; w.Selects(n.Name, e) {
					jobs = s.add(jobs, n, w, e)
				}
			}
		}
	}
	if err := s.put(ctx, jobs); err != nil {
		return err
	}
	p.reached = b.Position
	every := saveIdle
	if p.told = p.told || len(jobs) > 0; p.told {
		every = saveEvery
	}
	now := s.o.Now()
	if p.position != "" && now.Sub(p.at) < every && now.After(p.at) {
		return nil
	}
	if err := s.o.Engine.SetWebhooksPosition(ctx, b.Position); err != nil {
		return err
	}
	p.position, p.at, p.told = b.Position, now, false
	return nil
}

// put puts jobs, some of them concurrently. It tries again what may succeed later, until ctx ends.
func (s *Sender) put(ctx context.Context, jobs []carillon.Job) error {
	var all sync.WaitGroup
	turns := make(chan struct{}, putsAtOnce)
	errs := make([]error, len(jobs))
	for i := range jobs {
		turns <- struct{}{}
		all.Go(func() {
			errs[i] = s.putOne(ctx, &jobs[i])
			<-turns
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *Sender) putOne(ctx context.Context, j *carillon.Job) error {
	again := backoff{}
	for {
		var err, unsupported error
		if s.o.Supports != nil {
			unsupported = s.o.Supports(&j.Target)
		}
		if err = unsupported; err == nil {
			_, err = s.o.Put(ctx, *j, carillon.IfAbsent())
		}
		switch {
		case unsupported != nil:
		case err == nil, errors.Is(err, carillon.AlreadyExists):
			s.o.Told()
			return nil
		case errors.Is(err, carillon.InvalidArgument), errors.Is(err, carillon.DataLoss):
			s.refuse(j, err)
			return nil
		}
		again.log(s.o.Log, "an event waits to be sent to a webhook", fmt.Errorf("job %s: %w", j.Key(), err))
		if !again.wait(ctx) {
			return ctx.Err()
		}
	}
}

// refuse notes that an event is not sent.
func (s *Sender) refuse(j *carillon.Job, err error) {
	s.o.Refused()
	s.o.Log.Error("an event cannot be sent to a webhook", "job", j.Key().String(), "error", err)
}

// backoff is the pauses between tries of something that fails.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

// log logs the first failure.
func (b *backoff) log(log *slog.Logger, message string, err error) {
	if b.next == 0 {
		log.Warn(message, "error", err)
	}
}

// wait waits before the next try. It returns false if ctx ends first.
func (b *backoff) wait(ctx context.Context) bool {
	b.next = min(max(againFirst, 2*b.next), againLast)
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
