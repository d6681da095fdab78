package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// onOneBroker are tests that all kinds of brokers pass.
func onOneBroker(t *testing.T, k *kind) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *kind)
		slow string // with which kinds it is left out of short runs
	}{
		{"commands are done once", commandsAreDoneOnce, ""},
		{"what is no command becomes a dead letter", whatIsNoCommandBecomesADeadLetter, ""},
		{"a message comes again after a node has died", aMessageComesAgainAfterANodeHasDied, ""},
		{"what cannot be done now is tried again, in order", whatCannotBeDoneNowIsTriedAgain, ""},
		{"messages come in another order, and again", anotherOrder, ""},
		{"a topic is made later", aTopicThatIsMadeLater, ""},
		{"a topic may not be read", aTopicThatMayNotBeRead, ""},
		{"two nodes share the messages", twoNodesShareTheMessages, ""},
		{"the network is cut", theNetworkIsCut, "nats amqp redis kafka"},
		{"a broker that dies loses nothing", aBrokerThatDiesLosesNothing, "kafka amqp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && strings.Contains(c.slow, k.settings.Kind) {
				t.Skip("it takes 10 s and more with this kind of broker")
			}
			c.test(t, k)
		})
	}
}

func commandsAreDoneOnce(t *testing.T, k *kind) {
	to := k.topic(t, "once")
	n := start(t)
	x := k.take(t, n.to, "once")
	k.send(t, event(to, "1", ingest.JobCreate, "a", later), event(to, "1", ingest.JobCreate, "a", later),
		structured(t, to, "2", ingest.JobTrigger, "a", ""), event(to, "2", ingest.JobTrigger, "a", ""),
		structured(t, to, "3", ingest.JobPut, "b", later), event(to, "4", ingest.JobDelete, "b", ""),
		structured(t, to, "3", ingest.JobPut, "b", later), event(to, "5", ingest.JobPut, "c", later),
		event(to, "6", ingest.JobDelete, "c", "", "ce-ifgeneration", "1"),
		event(to, "6", ingest.JobDelete, "c", "", "ce-ifgeneration", "1"))
	x.awaits(t, ingest.Done, 6)
	x.awaitsAtLeast(t, ingest.Repeated, 4) // a broker may give a message again
	if n.job(t, "a") == nil || n.job(t, "b") != nil || n.job(t, "c") != nil {
		t.Error("a repeated message has changed something")
	}
	if got := n.runs(t, "a"); got != 1 {
		t.Errorf("a trigger that came twice made %d runs", got)
	}
	realserver.Eventually(t, func() error {
		if s := x.Stats()[0]; !s.Connected || s.Lag != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	s := x.Status("a")[0]
	if r := s.Readers[0]; r.Node != "a" || !r.Connected || r.Error != "" || r.Retrying != "" || !r.LagKnown || r.Lag != 0 ||
		r.LastMessage.Before(r.Since) || s.Namespace != "shop" || s.Topic != "once" || s.Kind != k.settings.Kind ||
		r.Counts.Done != 6 || r.Counts.Repeated < 4 || r.Counts.Dead+r.Counts.Retried != 0 {
		t.Errorf("its status is %+v", s)
	}
	realserver.Eventually(t, func() error { // what is counted has its place until a moment later
		if s := x.Status("a")[0]; s.InFlight != 0 || s.Readers[0].InFlight != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	x.end()
	y := k.take(t, n.to, "once")
	k.send(t, event(to, "7", ingest.JobPut, "d", later))
	y.awaits(t, ingest.Done, 1)
	if y.get(ingest.Repeated) != 0 {
		t.Error("messages that were acknowledged have come again")
	}
}

func whatIsNoCommandBecomesADeadLetter(t *testing.T, k *kind) {
	to := k.topic(t, "odd")
	n := start(t)
	x := k.take(t, n.to, "odd")
	plain := event(to, "", "", "", "{}")
	plain.Headers, plain.Data = nil, []byte("plain")
	k.send(t, plain, event(to, "type", "com.example.other", "a", ""),
		event(to, "data", ingest.JobPut, "a", `{"due_tim": "1h"}`),
		event(to, "target", ingest.JobPut, "a", `{"due_time": "1h"}`),
		event(to, "missing", ingest.JobTrigger, "nobody", ""),
		event(to, "space", ingest.JobPut, "a", `{"namespace": "other", "due_time": "1h"}`),
		event(to, "token", ingest.RunComplete, "", `{"token": "x", "outcome": "success"}`),
		event(to, "control", ingest.JobTrigger, "nobody", "", "Nats-Expected-Stream", "odd"), // of NATS
		event(to, "good", ingest.JobPut, "good", later))
	x.awaitsAtLeast(t, ingest.Dead, 8)
	x.awaits(t, ingest.Done, 1)
	got := k.reasons(t, "odd", 8)
	for id, want := range map[string]string{
		"plain": "invalid_argument specversion ", "type": "invalid_argument type ", "data": "invalid_argument due_tim ",
		"target": "invalid_argument target ", "missing": "not_found ", "space": "invalid_argument namespace ",
		"token": "invalid_argument token ", "control": "not_found ",
	} {
		if !strings.HasPrefix(got[id], want) {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
}

// aMessageComesAgainAfterANodeHasDied between a change and its acknowledgement.
func aMessageComesAgainAfterANodeHasDied(t *testing.T, k *kind) {
	to := k.topic(t, "again")
	n := start(t)
	const most = 20
	var ms int
	for i := range most {
		k.send(t, event(to, fmt.Sprint(i), ingest.JobCreate, fmt.Sprint("j", i), later))
		ms++
	}
	var done atomic.Int32
	x := k.take(t, doer(func(ctx context.Context, c message.Command) (bool, error) {
		before, err := n.to.Do(ctx, c)
		// One that is tried again, since it was not acknowledged, is not another one.
		if err == nil && (before || done.Add(1) > most/2) {
			return before, errors.New("the node dies before it can acknowledge this")
		}
		return before, err
	}), "again")
	realserver.Eventually(t, func() error {
		if done.Load() < most {
			return errors.New("not all were done")
		}
		return nil
	})
	x.end()
	first := x.get(ingest.Done)
	y := k.take(t, n.to, "again")
	realserver.Eventually(t, func() error {
		if got := first + y.get(ingest.Repeated); got < most {
			return fmt.Errorf("%d of %d messages are acknowledged", got, most)
		}
		return nil
	})
	if y.get(ingest.Done)+y.get(ingest.Dead) != 0 {
		t.Errorf("%d were done again and %d refused", y.get(ingest.Done), y.get(ingest.Dead))
	}
}

// whatCannotBeDoneNowIsTriedAgain, and later commands of the job wait for it.
func whatCannotBeDoneNowIsTriedAgain(t *testing.T, k *kind) {
	to := k.topic(t, "retry")
	n := start(t)
	var tries atomic.Int32
	var away atomic.Bool
	away.Store(true)
	x := k.take(t, doer(func(ctx context.Context, c message.Command) (bool, error) {
		if c.Key.Name == "a" && (tries.Add(1) < 4 || away.Load()) {
			return false, carillon.Errorf(carillon.Unavailable, "", "the store is away")
		}
		return n.to.Do(ctx, c)
	}), "retry")
	k.send(t, event(to, "1", ingest.JobPut, "a", later), event(to, "2", ingest.JobDelete, "a", ""),
		event(to, "3", ingest.JobCreate, "a", later), event(to, "4", ingest.JobPut, "b", later))
	realserver.Eventually(t, func() error {
		s := x.Status("a")[0]
		if !strings.Contains(s.Readers[0].Retrying, "cannot do it at present") || s.InFlight < 1 {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
	away.Store(false)
	x.awaits(t, ingest.Done, 4)
	if s := x.Status("a")[0]; s.Readers[0].Retrying != "" || s.Counts.Retried < 3 {
		t.Errorf("its status is %+v", s)
	}
	if x.get(ingest.Dead) != 0 || x.get(ingest.Retried) < 3 || n.job(t, "a") == nil {
		t.Errorf("%d dead, %d retried", x.get(ingest.Dead), x.get(ingest.Retried))
	}
}

func twoNodesShareTheMessages(t *testing.T, k *kind) {
	to := k.topic(t, "shared")
	n := start(t)
	x := k.take(t, n.to, "shared")
	const most = 600
	send := func(from int) {
		var ms []int
		for i := range most / 3 {
			ms = append(ms, from+i)
		}
		for _, i := range ms {
			k.send(t, event(to, fmt.Sprint(i), ingest.JobCreate, fmt.Sprint("j", i), later))
		}
	}
	send(0)
	y := k.take(t, n.to, "shared")
	send(most / 3)
	realserver.Eventually(t, func() error {
		if got := x.get(ingest.Done) + y.get(ingest.Done); got != 2*most/3 {
			return fmt.Errorf("%d of %d are done", got, 2*most/3)
		}
		return nil
	})
	x.end()
	send(2 * most / 3)
	realserver.Eventually(t, func() error {
		if got := x.get(ingest.Done) + y.get(ingest.Done); got != most {
			return fmt.Errorf("%d of %d are done", got, most)
		}
		return nil
	})
	if x.get(ingest.Dead)+y.get(ingest.Dead) != 0 {
		t.Error("creates were done twice")
	}
}

func aBrokerThatDiesLosesNothing(t *testing.T, k *kind) {
	to := k.topic(t, "dies")
	n := start(t)
	x := k.take(t, n.to, "dies")
	if !testing.Short() {
		aQuietTopicIsConnectedAgain(t, k, x)
	}
	const most = 200
	for i := range most {
		k.send(t, event(to, fmt.Sprint(i), ingest.JobCreate, fmt.Sprint("j", i), later))
		if i == most/2 {
			k.crash(t)
			k.up(t)
		}
	}
	realserver.Eventually(t, func() error {
		if got := x.get(ingest.Done); got != most {
			return fmt.Errorf("%d of %d are done", got, most)
		}
		return nil
	})
	if x.get(ingest.Dead) != 0 {
		t.Errorf("%d dead letters", x.get(ingest.Dead))
	}
	x.end()
}

// aQuietTopicIsConnectedAgain after an outage, without a message.
func aQuietTopicIsConnectedAgain(t *testing.T, k *kind, x *taking) {
	t.Helper()
	awaits := func(connected bool) {
		t.Helper()
		realserver.Eventually(t, func() error {
			if s := x.Stats()[0]; s.Connected != connected {
				return fmt.Errorf("%+v", s)
			}
			r := x.Status("a")[0].Readers[0]
			if says := r.Error != "" && !r.ErrorSince.IsZero(); r.Connected != connected || says == connected {
				return fmt.Errorf("its status is %+v", r)
			}
			return nil
		})
	}
	awaits(true)
	k.crash(t)
	awaits(false)
	k.up(t)
	awaits(true)
}
