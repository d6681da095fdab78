package scenario_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// keys is an HTTP target that notes the idempotency keys that it was called with. The first call of a key is
// held for as long as the test says.
type keys struct {
	mu    sync.Mutex
	calls map[string]map[string][]time.Time // by job, by key
	held  int
	free  chan struct{}
}

// ServeHTTP is for [http.Handler].
func (k *keys) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	job, id := r.Header.Get("Carillon-Job"), r.Header.Get("Idempotency-Key")
	k.mu.Lock()
	if k.calls[job] == nil {
		k.calls[job] = map[string][]time.Time{}
	}
	k.calls[job][id] = append(k.calls[job][id], time.Now())
	first := len(k.calls[job][id]) == 1
	if first {
		k.held++
	}
	k.mu.Unlock()
	if first {
		select {
		case <-k.free:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusOK)
}

func (k *keys) holds() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held
}

// S17: one of five nodes is killed while it makes 100 calls, beside a million entries that are not due. All
// are made again, by others, with the keys that they had; no other call is made twice, although all are of
// times that passed an hour ago: what counts is when a call was begun.
func TestS17KilledWhileCalling(t *testing.T) {
	beside(t, 5, func(t *testing.T, c *city) { stuckCalls(t, c, count(1_000_000), false) })
}

// S17: so is the node that takes over, when it has just done so. It costs no more than another takeover.
func TestS17SuccessorKilledToo(t *testing.T) {
	beside(t, 5, func(t *testing.T, c *city) { stuckCalls(t, c, 0, true) })
}

// held is the time after which a call is made again that nobody knows the end of.
func held() time.Duration { return max(span(30*time.Second), 5*time.Second) }

// stuckCalls kills a node that makes 100 calls, and its successor too if it is asked to.
func stuckCalls(t *testing.T, c *city, entries int, successor bool) {
	t.Helper()
	const mine, others = 100, 100
	c.load(asleep(entries))
	k := &keys{calls: map[string]map[string][]time.Time{}, free: make(chan struct{})}
	target := httptest.NewServer(k)
	defer target.Close()
	of := c.owned(c.nodes[0])
	var jobs []carillon.Job
	for i, name := range append(named("mine", mine, func(p int) bool { _, ok := of[p]; return ok }),
		named("theirs", others, func(p int) bool { _, ok := of[p]; return !ok })...) {
		jobs = append(jobs, carillon.Job{Name: name, Target: carillon.HTTP(fmt.Sprint(target.URL, "/", i)),
			Timeout: held(),
			Due:     carillon.At(time.Now().Add(-time.Hour))})
		if i >= mine {
			jobs[i].Timeout = 5 * time.Minute // theirs are not to end while the test looks
		}
	}
	if successor {
		jobs = jobs[:mine]
	}
	c.load(jobs)
	c.await("all calls are being made", func() bool { return k.holds() == len(jobs) })
	c.at(time.Now().Add(justBefore))
	killed, most := time.Now(), held()+11*time.Second
	must(t, c.nodes[0].Kill())
	var ended time.Time // of the successor
	if successor {
		c.killSuccessor(of, killed)
		ended = time.Now()
		most += 10 * time.Second
	}
	c.await("all calls are made again", func() bool { return k.again() >= mine })
	took := time.Since(killed)
	close(k.free)
	cl := c.client(c.Running()[0])
	c.await("no call is left", func() bool {
		for _, prefix := range []string{"mine/", "theirs/"} {
			page, err := cl.ListJobs(t.Context(), carillon.JobQuery{PageSize: 10, Prefix: prefix})
			if err != nil || len(page.Jobs) > 0 {
				return false
			}
		}
		return true
	})
	k.judge(t, of, ended)
	if took > most {
		t.Errorf("the calls were made again after %v, more than %v", took, most)
	}
	t.Logf("made again within %v", took)
}

// asleep are jobs that nobody waits for.
func asleep(n int) []carillon.Job {
	jobs := make([]carillon.Job, n)
	for i := range jobs {
		jobs[i] = carillon.Job{Name: fmt.Sprint("asleep/", i), Due: carillon.In(30 * 24 * time.Hour)}
	}
	return jobs
}

// killSuccessor kills the first that takes one of some partitions over.
func (c *city) killSuccessor(of map[int]store.Owner, since time.Time) {
	c.t.Helper()
	var name string
	c.await("somebody takes over", func() bool {
		for p := range of {
			for _, m := range c.later(p, since) {
				if m.to.Node != "" && m.to.Node != c.nodes[0].Name {
					name = m.to.Node
					return true
				}
			}
		}
		return false
	})
	for _, m := range c.nodes {
		if m.Name == name {
			must(c.t, m.Kill())
		}
	}
}

// again is how many keys were called more than once.
func (k *keys) again() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, byKey := range k.calls {
		for _, calls := range byKey {
			if len(calls) > 1 {
				n++
			}
		}
	}
	return n
}

// onItsWay is how long after the end of a node a request may be read that it has sent; no other has its
// partitions so soon.
const onItsWay = time.Second

// judge checks that jobs of some partitions were called twice with one key, and others once. If their next
// owner was killed, too, and made the second call before, a third one may follow: what came of the second may
// not have become durable.
func (k *keys) judge(t *testing.T, twice map[int]store.Owner, ended time.Time) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for job, byKey := range k.calls {
		want := 1
		if _, ok := twice[store.PartitionOf(keyOf(job), partitions)]; ok {
			want = 2
		}
		for id, calls := range byKey {
			n := len(calls)
			if n == 3 && want == 2 && calls[1].Before(ended.Add(onItsWay)) && calls[2].After(ended.Add(onItsWay)) {
				n = 2
			}
			if len(byKey) != 1 || n != want {
				t.Errorf("%s: calls at %v with key %s of %d keys, want %d; the successor ended at %v", job,
					calls, id, len(byKey), want, ended)
			}
		}
	}
}

// keyOf reads a job's key from a request.
func keyOf(job string) carillon.Key {
	const ns = carillon.DefaultNamespace + "/"
	return key(job[len(ns):])
}
