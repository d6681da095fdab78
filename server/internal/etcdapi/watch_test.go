package etcdapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watching is a watch that has begun.
type watching struct {
	t    *testing.T
	from clientv3.WatchChan
	seen []string
}

func (r *rig) watch(t *testing.T, key string, o ...clientv3.OpOption) *watching {
	t.Helper()
	w := &watching{t: t, from: r.etcd.Watch(clientv3.WithRequireLeader(t.Context()), key, append(o, clientv3.WithCreatedNotify())...)}
	if m, ok := <-w.from; !ok || !m.Created || m.Canceled {
		t.Fatalf("the watch did not begin: %v", m.Err())
	}
	return w
}

// want waits for events.
func (w *watching) want(events ...string) {
	w.t.Helper()
	for len(w.seen) < len(events) {
		m, ok := <-w.from
		if !ok || m.Err() != nil {
			w.t.Fatalf("the watch ended after %q: %v", w.seen, m.Err())
		}
		for _, e := range m.Events {
			w.seen = append(w.seen, fmt.Sprintf("%v %s", e.Type, e.Kv.Key))
			if e.Kv.ModRevision > m.Header.Revision {
				w.t.Errorf("%v is of a revision after its message, %d", e, m.Header.Revision)
			}
		}
	}
	if fmt.Sprint(w.seen) != fmt.Sprint(events) {
		w.t.Errorf("events %q, want %q", w.seen, events)
	}
	w.seen = nil
}

// TestAWatchTellsWhatChangesFromNowOn: what is put again and what is deleted, of its keys only.
func TestAWatchTellsWhatChangesFromNowOn(t *testing.T) {
	r := start(t, Options{WatchEvery: time.Millisecond})
	r.schedule(appOf("ns", "shop"), "old", far())
	all := r.watch(t, "dapr/jobs/", clientv3.WithPrefix())
	deletes := r.watch(t, "dapr/jobs/app||ns||shop||", clientv3.WithPrefix(), clientv3.WithFilterPut())
	puts := r.watch(t, "dapr/jobs/app||ns||shop||new", clientv3.WithFilterDelete())
	r.schedule(appOf("ns", "shop"), "new", far())
	all.want("PUT dapr/jobs/app||ns||shop||new")
	puts.want("PUT dapr/jobs/app||ns||shop||new")
	r.schedule(appOf("ns", "shop"), "old", far())
	all.want("PUT dapr/jobs/app||ns||shop||old")
	if _, err := r.etcd.Delete(t.Context(), "dapr/jobs/app||ns||shop||new"); err != nil {
		t.Fatal(err)
	}
	all.want("DELETE dapr/jobs/app||ns||shop||new")
	deletes.want("DELETE dapr/jobs/app||ns||shop||new")
	r.schedule(appOf("ns", "shop"), "new", far())
	puts.want("PUT dapr/jobs/app||ns||shop||new")
}

// TestAWatchThatCannotBe ends at once, and says why.
func TestAWatchThatCannotBe(t *testing.T) {
	r := start(t, Options{WatchedKeys: 3, WatchEvery: time.Millisecond})
	now := r.get("a").Header.Revision
	ended := func(o ...clientv3.OpOption) error {
		t.Helper()
		for m := range r.etcd.Watch(t.Context(), "dapr/jobs/", append(o, clientv3.WithPrefix())...) {
			if m.Canceled {
				return m.Err()
			}
			t.Errorf("it has begun: %v", m)
		}
		return nil
	}
	if err := ended(clientv3.WithRev(now)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("from an old revision: %v", err)
	}
	if err := ended(clientv3.WithRev(now << 1)); err == nil || !strings.Contains(err.Error(), "future") {
		t.Errorf("from a revision to come: %v", err)
	}
	if err := ended(clientv3.WithPrevKV()); err == nil || !strings.Contains(err.Error(), "prev_kv") {
		t.Errorf("with old values: %v", err)
	}
	for i := range 3 {
		r.schedule(appOf("ns", "shop"), fmt.Sprint(i), far())
	}
	r.watch(t, "dapr/leadership/none")
	w := r.watch(t, "dapr/jobs/", clientv3.WithPrefix())
	if err := ended(); err == nil || !strings.Contains(err.Error(), "too many keys") {
		t.Errorf("with more keys than may be watched: %v", err)
	}
	r.schedule(appOf("ns", "shop"), "4", far())
	for m := range w.from {
		if !errors.Is(m.Err(), rpctypes.ErrCompacted) {
			t.Errorf("when there are more keys: %v", m)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := r.etcd.Watch(ctx, "dapr/jobs/app||ns||shop||1", clientv3.WithCreatedNotify())
	if m := <-c; !m.Created {
		t.Errorf("what it gave back is not there: %v", m)
	}
	cancel()
	for range c {
		t.Error("a message after it was cancelled")
	}
}
