package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// do has a node do a command.
func (n *node) do(request, name string, job *carillon.Job) (before bool, err error) {
	key := carillon.Key{Namespace: "default", Name: name}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return message.Send(ctx, n.Engine, store.PartitionOf(key, 5),
		message.Command{Request: request, Key: key, Job: job})
}

// forgets has a node forget a command.
func (n *node) forgets(request, name string) error {
	id := message.CommandID{Key: carillon.Key{Namespace: "default", Name: name}, Request: request}
	_, err := message.Send(context.Background(), n.Engine, store.PartitionOf(id.Key, 5),
		message.ForgetCommands{Commands: []message.CommandID{id}})
	return err
}

// TestACommandIsDoneOnceHoweverOftenItComes: the job of a put runs at once and is gone. A node crashes at
// each write in turn, with the write applied and without, and the command comes again until it is done, and once
// more: there is one run. So it is with a delete, which leaves a job alone that was put since.
func TestACommandIsDoneOnceHoweverOftenItComes(t *testing.T) {
	for _, lands := range []bool{false, true} {
		for left, cutOff := 1, true; cutOff; left++ {
			t.Run(fmt.Sprint(lands, left), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cutOff = commandWithCrash(t, left, lands) })
			})
			if left > 30 {
				t.Fatal("a command takes more than 30 writes")
			}
		}
	}
}

func commandWithCrash(t *testing.T, left int, lands bool) (cutOff bool) {
	c := &crashes{memory.New(memory.Options{Partitions: 5}), t, 1}
	put := func(n *node) (bool, error) {
		return n.do("put", "once", &carillon.Job{Target: carillon.WorkerQueue("q"),
			History: carillon.History{Runs: -1}})
	}
	runs := map[string]bool{} // by id: a run in doubt comes again
	saw := func(w *consumer) {
		for _, r := range w.got() {
			runs[r.ID] = true
		}
	}
	cutOff = c.live(left, lands, 0, func(n *node) {
		w := n.consume("q", 10, success)
		_, _ = put(n) // it comes again
		time.Sleep(time.Second)
		saw(w)
	})
	n := start(t, c.disk)
	w := n.consume("q", 10, success)
	for range 3 {
		if _, err := put(n); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	if saw(w); len(runs) != 1 {
		t.Errorf("%d runs", len(runs))
	}
	if before, err := n.do("delete", "once", nil); before || err != nil {
		t.Errorf("a delete of what is not there: %v, %v", before, err)
	}
	n.put(carillon.Job{Name: "once", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")})
	if before, err := n.do("delete", "once", nil); !before || err != nil || noteOf(t, n, "once") != "" {
		t.Errorf("a delete that comes again: %v, %v", before, err)
	}
	if _, err := n.GetJob(context.Background(), carillon.Key{Namespace: "default", Name: "once"}); err != nil {
		t.Errorf("a delete that came again has removed a newer job: %v", err)
	}
	for _, request := range []string{"put", "delete", "put"} {
		if err := n.forgets(request, "once"); err != nil {
			t.Error(err)
		}
	}
	n.stop()
	wantNoSmall(t, c.disk, store.KindCommand)
	return cutOff
}

// TestARefusedCommandIsNotRemembered: it may be right when it comes again.
func TestARefusedCommandIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 5}))
		if _, err := n.do("r", "a", &carillon.Job{}); !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("a job without a target: %v", err)
		}
		right := &carillon.Job{Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
		if before, err := n.do("r", "a", right); before || err != nil {
			t.Errorf("the right one: %v, %v", before, err)
		}
		for _, request := range []string{"", strings.Repeat("r", message.MaxRequest+1)} {
			if _, err := n.do(request, "a", right); !errors.Is(err, carillon.InvalidArgument) {
				t.Errorf("a request of %d bytes: %v", len(request), err)
			}
		}
		n.stop()
	})
}

// TestTriggersAndConditionsAreDoneOnce, and refused as calls are.
func TestTriggersAndConditionsAreDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 5}))
		key := carillon.Key{Namespace: "default", Name: "a"}
		once := func(request string, c message.Command) (bool, error) {
			c.Request, c.Key, c.KeepFor = request, key, time.Hour
			return message.Send(context.Background(), n.Engine, store.PartitionOf(key, 5), c)
		}
		job := &carillon.Job{Due: carillon.In(1000 * time.Hour), Target: carillon.WorkerQueue("q")}
		trigger := message.Command{Trigger: &carillon.TriggerOptions{}}
		if _, err := once("t", trigger); !errors.Is(err, carillon.NotFound) {
			t.Errorf("a trigger of no job: %v", err)
		}
		create := message.Command{Job: job, IfAbsent: true}
		for i := range 3 {
			if before, err := once("c", create); before != (i > 0) || err != nil {
				t.Errorf("create %d: %v, %v", i, before, err)
			}
			if before, err := once("t", trigger); before != (i > 0) || err != nil {
				t.Errorf("trigger %d: %v, %v", i, before, err)
			}
		}
		if _, err := once("c2", create); !errors.Is(err, carillon.AlreadyExists) {
			t.Errorf("another create: %v", err)
		}
		w := n.consume("q", 10, success)
		time.Sleep(time.Second)
		if got := len(w.got()); got != 1 {
			t.Errorf("%d runs of one trigger", got)
		}
		if _, err := once("d", message.Command{IfGeneration: 7}); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("a delete of another generation: %v", err)
		}
		for i := range 2 {
			if before, err := once("d", message.Command{IfGeneration: 1}); before != (i > 0) || err != nil {
				t.Errorf("delete %d: %v, %v", i, before, err)
			}
		}
		if _, err := once("d2", message.Command{IfGeneration: 1}); err == nil {
			t.Error("a delete of a generation of no job is done")
		}
		long := message.Command{Request: "l", Key: key, KeepFor: message.MaxKeepFor + 1}
		if _, err := message.Send(context.Background(), n.Engine, store.PartitionOf(key, 5), long); err == nil {
			t.Error("a command may be remembered for any time")
		}
		time.Sleep(2 * time.Hour)
		n.stop()
	})
}
