package ingest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// anotherOrder: each message comes several times, in any order. Each either changes its job, which goes from a
// generation to the next, or is a dead letter, and has the same end when it comes again.
func anotherOrder(t *testing.T, k *kind) {
	const jobs, generations, times = 8, 5, 3
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	to := k.topic(t, "order")
	n := start(t)
	x := k.take(t, n.to, "order")
	var all []broker.Message
	for range times {
		for j := range jobs {
			name := fmt.Sprint("j", j)
			all = append(all, event(to, name+"-1", ingest.JobCreate, name, later))
			for g := 1; g < generations; g++ {
				all = append(all, event(to, fmt.Sprint(name, "-", g+1), ingest.JobPut, name, later, "ce-ifgeneration",
					fmt.Sprint(g)))
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	k.send(t, all...)
	realserver.Eventually(t, func() error {
		if got := x.get(ingest.Done) + x.get(ingest.Dead) + x.get(ingest.Repeated); got < len(all) {
			return fmt.Errorf("%d of %d messages have an end", got, len(all))
		}
		return nil
	})
	x.end()
	done := 0
	for j := range jobs {
		job := n.job(t, fmt.Sprint("j", j))
		if job == nil {
			t.Fatalf("job %d has not been created", j)
		}
		done += int(job.Status.Generation)
	}
	if got := x.get(ingest.Done); got != done {
		t.Errorf("%d messages are done; the jobs are at generations that make %d", got, done)
	}
	if got := x.get(ingest.Repeated); got < (times-1)*done {
		t.Errorf("%d messages were repeated of %d that were done and came %d times", got, done, times)
	}
	refused := jobs*generations - done
	letters := k.reasons(t, "order", x.get(ingest.Dead)) // each time that it comes
	if len(letters) != refused {
		t.Errorf("%d of %d messages have a dead letter", len(letters), refused)
	}
	for id, why := range letters {
		var j, g int
		if _, err := fmt.Sscanf(id, "j%d-%d", &j, &g); err != nil {
			t.Fatal(err)
		}
		if at := int(n.job(t, fmt.Sprint("j", j)).Status.Generation); g <= at {
			t.Errorf("%s is done and a dead letter: %s", id, why)
		}
	}
}

// aTopicThatIsMadeLater is said to be missing, until it is there.
func aTopicThatIsMadeLater(t *testing.T, k *kind) {
	n := start(t)
	x := k.take(t, n.to, "made-later")
	if k.settings.Kind != "redis" { // its streams are made by the ingest
		realserver.Eventually(t, func() error {
			if r := x.Status("a")[0].Readers[0]; r.Connected || r.Error == "" || r.ErrorSince.IsZero() {
				return fmt.Errorf("its reader is %+v", r)
			}
			return nil
		})
		t.Logf("without it: %s", x.Status("a")[0].Readers[0].Error)
	}
	k.send(t, event(k.topic(t, "made-later"), "1", ingest.JobPut, "a", later))
	x.awaits(t, ingest.Done, 1)
	realserver.Eventually(t, func() error {
		if r := x.Status("a")[0].Readers[0]; !r.Connected || r.Error != "" {
			return fmt.Errorf("its reader is %+v", r)
		}
		return nil
	})
}

// aTopicThatMayNotBeRead is said to be one, until its user may read it.
func aTopicThatMayNotBeRead(t *testing.T, k *kind) {
	n := start(t)
	stranger := *k
	stranger.source = k.stranger
	k.send(t, event(k.topic(t, "closed"), "1", ingest.JobPut, "a", later))
	x := stranger.take(t, n.to, "closed")
	realserver.Eventually(t, func() error {
		if r := x.Status("a")[0].Readers[0]; r.Connected || r.Error == "" || r.ErrorSince.IsZero() {
			return fmt.Errorf("its reader is %+v", r)
		}
		return nil
	})
	t.Logf("without the right: %s", x.Status("a")[0].Readers[0].Error)
	if n := x.get(ingest.Done); n != 0 {
		t.Errorf("%d messages were taken", n)
	}
	k.allow(t, "closed")
	x.awaits(t, ingest.Done, 1)
}
