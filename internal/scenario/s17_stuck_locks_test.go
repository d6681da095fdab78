package scenario_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// keys is an HTTP target that notes the idempotency keys that it was called with. The first call of a key is held for as long
// as the test says.
type keys struct {
	mu    sync.Mutex
	calls map[string]map[string]int // by job, by key
	held  int
	free  chan struct{}
}

// ServeHTTP is for [http.Handler].
func (k *keys) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	job, id := r.Header.Get("Carillon-Job"), r.Header.Get("Idempotency-Key")
	k.mu.Lock()
	if k.calls[job] == nil {
		k.calls[job] = map[string]int{}
	}
	k.calls[job][id]++
	first := k.calls[job][id] == 1
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

// S17: a node is killed while it makes 100 calls. All are made again, by others, with the keys that they had; no other call is
// made twice.
func TestS17KilledWhileCalling(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		const mine, others = 100, 100
		k := &keys{calls: map[string]map[string]int{}, free: make(chan struct{})}
		target := httptest.NewServer(k)
		defer target.Close()
		of := c.owned(c.nodes[0])
		var jobs []carillon.Job
		for i, name := range append(named("mine", mine, func(p int) bool { _, ok := of[p]; return ok }),
			named("theirs", others, func(p int) bool { _, ok := of[p]; return !ok })...) {
			stuck := 5 * time.Minute
			if i < mine {
				stuck = 15 * time.Second // from when it may be called again
			}
			jobs = append(jobs, carillon.Job{Name: name, Target: carillon.HTTP(fmt.Sprint(target.URL, "/", i)), Timeout: stuck})
		}
		c.load(jobs)
		c.await("all calls are being made", func() bool { return k.holds() == mine+others })
		c.at(time.Now().Add(justBefore))
		killed := time.Now()
		must(t, c.nodes[0].Kill())
		again := func() (n int) {
			k.mu.Lock()
			defer k.mu.Unlock()
			for _, byKey := range k.calls {
				for _, calls := range byKey {
					n += calls - 1
				}
			}
			return n
		}
		c.await("all calls are made again", func() bool { return again() >= mine })
		took := time.Since(killed)
		close(k.free)
		cl := c.client(c.nodes[1])
		c.await("no job is left", func() bool {
			page, err := cl.ListJobs(t.Context(), carillon.JobQuery{PageSize: 10})
			return err == nil && len(page.Jobs) == 0
		})
		k.mu.Lock()
		defer k.mu.Unlock()
		for job, byKey := range k.calls {
			want := 1
			if _, ok := of[carillon.PartitionOf(keyOf(job), partitions)]; ok {
				want = 2
			}
			for id, calls := range byKey {
				if len(byKey) != 1 || calls != want {
					t.Errorf("%s: %d calls with key %s of %d keys, want %d", job, calls, id, len(byKey), want)
				}
			}
		}
		if took > 41*time.Second {
			t.Errorf("the calls were made again after %v", took)
		}
		t.Logf("made again within %v", took)
	})
}

// keyOf reads a job's key from a request.
func keyOf(job string) carillon.Key {
	const ns = carillon.DefaultNamespace + "/"
	return key(job[len(ns):])
}
