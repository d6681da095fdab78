package webhooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/webhooks"
)

// log is an engine that keeps some events, and a store of jobs.
type log struct {
	mu       sync.Mutex
	owns     bool
	hooks    []*carillon.Namespace
	events   []carillon.Event
	oldest   int // events before it are deleted
	position string
	more     chan struct{} // closed with the next event

	jobs                  map[string]carillon.Job
	refuse                func(j *carillon.Job) error // of a put
	supports              func(t *carillon.Target) error
	told, refused, missed int
}

func newLog(types ...carillon.EventType) *log {
	hook := carillon.Webhook{Name: "w", URL: "https://example.com/x", Types: types, Prefix: "p/"}
	return &log{owns: true, more: make(chan struct{}), jobs: map[string]carillon.Job{},
		hooks: []*carillon.Namespace{{Name: "default", Webhooks: []carillon.Webhook{hook}}}}
}

func (l *log) locked(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// happens adds an event.
func (l *log) happens(e carillon.Event) {
	l.locked(func() {
		e.ID = fmt.Sprint(len(l.events))
		l.events = append(l.events, e)
		close(l.more)
		l.more = make(chan struct{})
	})
}

func (l *log) OwnsHome() (owns bool) {
	l.locked(func() { owns = l.owns })
	return owns
}

func (l *log) Hooked() (hooks []*carillon.Namespace) {
	l.locked(func() { hooks = l.hooks })
	return hooks
}

func (l *log) FollowWanted(ctx context.Context, position string, f func(carillon.EventBatch) error) error {
	l.mu.Lock()
	at, oldest := len(l.events), l.oldest
	l.mu.Unlock()
	if position != "" {
		if _, err := fmt.Sscan(position, &at); err != nil {
			return err
		}
	}
	if at < oldest {
		return carillon.Errorf(carillon.FailedPrecondition, "position", "gone")
	}
	for first := true; ; first = false {
		l.mu.Lock()
		events, more := l.events[at:], l.more
		at = len(l.events)
		l.mu.Unlock()
		if first || len(events) > 0 {
			if err := f(carillon.EventBatch{Events: events, Position: fmt.Sprint(at)}); err != nil {
				return err
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *log) WebhooksPosition(context.Context) (position string, _ error) {
	l.locked(func() { position = l.position })
	return position, nil
}

func (l *log) SetWebhooksPosition(_ context.Context, position string) error {
	l.locked(func() { l.position = position })
	return nil
}

func (l *log) put(_ context.Context, j carillon.Job, opts ...carillon.PutOption) (carillon.PutResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		if err := l.refuse(&j); err != nil {
			return carillon.PutResult{}, err
		}
	}
	if _, there := l.jobs[j.Name]; there {
		return carillon.PutResult{}, carillon.Errorf(carillon.AlreadyExists, "name", "it is there")
	}
	l.jobs[j.Name] = j
	return carillon.PutResult{Created: true}, nil
}

// run runs a sender until end is called.
func (l *log) run() (end func()) {
	count := func(n *int) func() { return func() { l.locked(func() { *n++ }) } }
	t := webhooks.New(webhooks.Options{Engine: l, Put: l.put, Now: time.Now, Log: slog.New(slog.DiscardHandler), Supports: l.supports,
		Told: count(&l.told), Refused: count(&l.refused), Missed: count(&l.missed)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		t.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

// want checks what was counted, and how many jobs there are.
func (l *log) want(t *testing.T, what string, jobs, told, refused, missed int) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.jobs) != jobs || l.told != told || l.refused != refused || l.missed != missed {
		t.Errorf("%s: %d jobs, %d told, %d refused, %d missed; want %d, %d, %d, %d", what, len(l.jobs), l.told,
			l.refused, l.missed, jobs, told, refused, missed)
	}
}

func dead(job string) carillon.Event {
	return carillon.Event{Type: carillon.EventRunDead, Namespace: "default", Job: job, Run: "r", Time: time.Now()}
}

func TestWhatIsSelectedBecomesJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run.dead", "node")
		defer l.run()()
		<-time.After(2 * time.Second)
		late := dead("p/x")
		late.Type = carillon.EventRunLate
		other := dead("p/x")
		other.Namespace = "other"
		for _, e := range []carillon.Event{dead("p/a"), dead("q"), late, other, dead(carillon.EventJobs + "w/1"),
			{Type: carillon.EventNodeLost, Node: "n", Time: time.Now()}} {
			l.happens(e)
		}
		<-time.After(time.Second)
		l.want(t, "two are selected", 2, 2, 0, 0)
		j := l.jobs[carillon.EventJobs+"w/0"]
		var ce map[string]any
		if err := json.Unmarshal(j.Data.Bytes, &ce); err != nil {
			t.Fatal(err)
		}
		if j.Namespace != "default" || j.Target.HTTP.URL != "https://example.com/x" ||
			j.Data.ContentType != "application/cloudevents+json" || ce["type"] != "com.carillonhq.run.dead" ||
			ce["source"] != "/v1/namespaces/default/jobs/p/a" || ce["subject"] != "r" || j.Validate(carillon.Bounds{}) != nil {
			t.Errorf("%+v with %v, %v", j, ce, j.Validate(carillon.Bounds{}))
		}
		if n := string(l.jobs[carillon.EventJobs+"w/5"].Data.Bytes); !strings.Contains(n, `"source":"/v1/nodes","type":"com.carillonhq.node.lost","subject":"n"`) {
			t.Errorf("of a node: %s", n)
		}
	})
}

// TestTellingGoesOnWhereItEnded: on another node too, and what may have been told already is told again.
func TestTellingGoesOnWhereItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run")
		end := l.run()
		<-time.After(time.Second)
		for i := range 10 {
			l.happens(dead(fmt.Sprint("p/", i)))
			<-time.After(300 * time.Millisecond)
		}
		l.want(t, "ten", 10, 10, 0, 0)
		l.locked(func() { l.owns = false })
		<-time.After(2 * time.Second)
		l.happens(dead("p/later"))
		<-time.After(time.Minute)
		l.want(t, "not in charge", 10, 10, 0, 0)
		end()
		l.locked(func() { l.owns = true })
		defer l.run()()
		<-time.After(2 * time.Second)
		synctest.Wait()
		if l.jobs[carillon.EventJobs+"w/10"].Name == "" || l.told < 11 || len(l.jobs) != 11 {
			t.Errorf("%d jobs, %d told", len(l.jobs), l.told)
		}
	})
}

// TestTheEndIsNoted: what was told before a sender ends in order is not told again.
func TestTheEndIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run")
		end := l.run()
		<-time.After(2 * time.Second)
		for i := range 10 {
			l.happens(dead(fmt.Sprint("p/", i)))
			synctest.Wait()
		}
		end()
		if l.position != "10" {
			t.Errorf("the position is %q", l.position)
		}
		defer l.run()()
		<-time.After(2 * time.Second)
		l.want(t, "nothing comes twice", 10, 10, 0, 0)
	})
}

// TestAWebhookAtABroker: the jobs have its target, and the key of a record is what the event is about.
func TestAWebhookAtABroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run", "node")
		hook := &l.hooks[0].Webhooks[0]
		hook.URL, hook.Kafka = "", &carillon.KafkaTarget{Cluster: "c", Topic: "t"}
		defer l.run()()
		<-time.After(2 * time.Second)
		l.happens(dead("p/a"))
		l.happens(carillon.Event{Type: carillon.EventNodeLost, Node: "n", Time: time.Now()})
		<-time.After(time.Second)
		l.want(t, "two", 2, 2, 0, 0)
		for name, want := range map[string]carillon.KafkaTarget{"0": {Cluster: "c", Topic: "t", Key: "p/a"},
			"1": {Cluster: "c", Topic: "t", Key: "n"}} {
			j := l.jobs[carillon.EventJobs+"w/"+name]
			if j.Target.HTTP != nil || j.Target.Kafka == nil || *j.Target.Kafka != want || j.Validate(carillon.Bounds{}) != nil {
				t.Errorf("%s: %+v, %v", name, j.Target.Kafka, j.Validate(carillon.Bounds{}))
			}
		}
	})
}

// TestAnEventForABrokerOfAnUnknownKind waits until the node in charge has a client of that kind.
func TestAnEventForABrokerOfAnUnknownKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run")
		hook := &l.hooks[0].Webhooks[0]
		hook.URL, hook.Kafka = "", &carillon.KafkaTarget{Cluster: "c", Topic: "t"}
		l.supports = func(to *carillon.Target) error {
			return carillon.Errorf(carillon.InvalidArgument, "target."+to.Kind(), "not supported yet")
		}
		end := l.run()
		<-time.After(2 * time.Second)
		l.happens(dead("p/a"))
		<-time.After(time.Hour)
		l.want(t, "it waits", 0, 0, 0, 0)
		end()
		l.supports = nil
		defer l.run()()
		<-time.After(2 * time.Second)
		l.want(t, "another node sends it", 1, 1, 0, 0)
	})
}

func TestAGapIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run")
		end := l.run()
		<-time.After(2 * time.Second)
		end()
		l.happens(dead("p/a"))
		l.locked(func() { l.oldest = 1 })
		defer l.run()()
		<-time.After(5 * time.Second)
		l.want(t, "the gap", 1, 1, 0, 1)
		for name, j := range l.jobs {
			if !strings.HasPrefix(name, carillon.EventJobs+"w/missed-") ||
				!strings.Contains(string(j.Data.Bytes), `"type":"com.carillonhq.events.missed"`) {
				t.Errorf("%s: %s", name, j.Data.Bytes)
			}
		}
		l.happens(dead("p/b"))
		<-time.After(5 * time.Second)
		l.want(t, "after it", 2, 2, 0, 1)
	})
}

// TestWhatCannotBePut waits if that may pass, and is left out if not.
func TestWhatCannotBePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run")
		tries := 0
		l.refuse = func(j *carillon.Job) error {
			if strings.Contains(string(j.Data.Bytes), "p/large") {
				return carillon.Errorf(carillon.InvalidArgument, "data", "too large")
			}
			if tries++; tries < 5 {
				return carillon.Errorf(carillon.Unavailable, "", "not now")
			}
			return nil
		}
		defer l.run()()
		<-time.After(2 * time.Second)
		l.happens(dead("p/large"))
		l.happens(dead("p/a"))
		<-time.After(time.Minute)
		l.want(t, "one waits, one is refused", 1, 1, 1, 0)
	})
}

// TestNoWebhooksLeaveNoPosition: webhooks that come later are not told what happened meanwhile.
func TestNoWebhooksLeaveNoPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run")
		hooks := l.hooks
		defer l.run()()
		<-time.After(2 * time.Second)
		l.happens(dead("p/a"))
		<-time.After(2 * time.Second)
		l.locked(func() { l.hooks = nil })
		<-time.After(2 * time.Second)
		if p, err := l.WebhooksPosition(t.Context()); p != "" || err != nil {
			t.Errorf("position %q, %v", p, err)
		}
		l.happens(dead("p/b"))
		l.locked(func() { l.hooks, l.oldest = hooks, 2 })
		<-time.After(2 * time.Second)
		l.happens(dead("p/c"))
		<-time.After(2 * time.Second)
		l.want(t, "a and c", 2, 2, 0, 0)
	})
}

// TestAnEndWhilePutsFail ends at once.
func TestAnEndWhilePutsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog("run")
		l.refuse = func(*carillon.Job) error { return errors.New("never") }
		end := l.run()
		<-time.After(2 * time.Second)
		l.happens(dead("p/a"))
		<-time.After(time.Minute)
		began := time.Now()
		end()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}
