package object_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/buckettest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object"
)

// TestKilledAtEachRequest: a process takes a partition over, writes, has snapshots written and segments
// deleted, hands the partition over and takes it again, and is killed at its first request, its second, and
// so on. Who comes after it sees what it acknowledged, and nothing of what was refused.
func TestKilledAtEachRequest(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	b := bucketOf(t, server)
	for _, done := range []bool{false, true} {
		if done && testing.Short() {
			continue // the same goroutines
		}
		n := 1
		for try := 0; ; try++ {
			d := buckettest.NewDying(b, n, done)
			lived := killed(t, d, fmt.Sprintf("killed-%v-%d", done, try))
			if d.Dead() {
				n++
			} else if lived {
				break
			} // else an answer came late: once more
		}
		if n < 20 {
			t.Errorf("only %d requests were made", n)
		}
	}
}

// killed plays one life and looks at what is left. It reports whether everything in that life was answered.
func killed(t *testing.T, d *buckettest.Dying, prefix string) (lived bool) {
	t.Helper()
	o := object.Options{Bucket: d.Bucket, Prefix: prefix, Every: time.Microsecond, Partitions: 4}
	before := servertest.Opened(t, o, object.Open)
	sh, _ := servertest.Own(t, before, 3)
	servertest.Want(t, "before", sh, servertest.Batch("before"), store.Applied)

	known := map[string]store.Outcome{"before": store.Applied}
	o.Bucket, o.Timeout = d, 100*time.Millisecond
	s, err := object.Open(t.Context(), object.Hurried(o, 2, 50*time.Millisecond))
	if err == nil {
		l := s.Leaser()
		short, cancel := context.WithTimeout(t.Context(), 10*o.Timeout) // for what waits for a batch without an answer
		defer cancel()
		lived = true
		for life := range 2 {
			terms, err := l.Claim(short, "node", []int{3}, servertest.Lease)
			if err != nil || terms[0].IsZero() {
				lived = false
				break
			}
			own := servertest.Shard(t, s, 3, terms[0])
			for i := range 5 {
				name := fmt.Sprintf("job-%d-%d", life, i)
				known[name] = store.OutcomeOf(own.Apply(t.Context(), servertest.Batch(name)))
				if known[name] != store.Applied {
					lived = false
					break
				}
			}
			_ = l.Release(short, "node", []store.Holding{{Partition: 3, Term: terms[0]}}) // or it is killed
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	again, _ := servertest.Own(t, before, 3)
	there := servertest.Names(t, again)
	for name, outcome := range known {
		is := slices.Contains(there, name)
		if outcome == store.Applied && !is || (outcome == store.Fenced || outcome == store.NotApplied) && is {
			t.Errorf("%s: the outcome of %s was %d, and it is there: %v", prefix, name, outcome, is)
		}
	}
	servertest.Want(t, "after", again, servertest.Batch("after"), store.Applied)
	return lived
}
