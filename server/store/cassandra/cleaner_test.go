package cassandra_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/cassandra"
)

// TestLogs checks how logs are cut and cleaned.
func TestLogs(t *testing.T) {
	n := realserver.StartCassandra(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, n *realserver.Cassandra)
	}{
		{"a log is cleaned, and keeps what is of use", cleaned},
		{"a reader that was away follows a log that was cleaned", follows},
		{"a segment that has gone is not begun again", notBegunAgain},
		{"settings are read alone", settingsAlone},
		{"a claim that did not come to its end", halfClaimed},
		{"a segment of which rows are missing stays", torn},
		{"an owner that was fenced begins no segment", fencedRoll},
		{"a store is closed while it gathers", gathersAndCloses},
		{"a batch that comes twice is applied once", comesTwice},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, n) })
	}
}

// small is how many rows the segments of these tests have.
const small = 50

// tick is a batch that writes jobs again without their specs, as runs do.
func tick(round int, names ...string) *store.Batch {
	b := servertest.Batch(names...)
	for i := range b.Puts {
		b.Puts[i].Spec = nil
		b.Puts[i].State.Due += int64(round)
	}
	return b
}

// churn puts some jobs that stay, and then puts and deletes others and ticks a few until the log has begun so
// many segments.
func churn(t *testing.T, s *cassandra.Store, sh store.Shard, segments int) {
	t.Helper()
	stay := servertest.Batch("kept-1", "kept-2", "kept-3")
	for i := range stay.Puts {
		stay.Puts[i].Spec = []byte("spec of " + stay.Puts[i].Name)
	}
	servertest.Want(t, "put", sh, stay, store.Applied)
	servertest.Want(t, "settings", sh, &store.Batch{MetaRecords: []store.MetaRecord{
		{Kind: store.KindNamespace, Key: "n", Value: []byte("v")}, {Kind: store.KindTold, Key: "\xff\x00", Value: []byte{}}}},
		store.Applied)
	for round := 0; ; round++ {
		servertest.Want(t, "tick", sh, tick(round, "kept-2"), store.Applied)
		servertest.Want(t, "put", sh, servertest.Batch("gone-1", "gone-2", "gone-3", "gone-4"), store.Applied)
		var gone store.Batch
		for i := range 4 {
			gone.Deletes = append(gone.Deletes, servertest.Job(fmt.Sprint("gone-", i+1)).Ref)
		}
		servertest.Want(t, "delete", sh, &gone, store.Applied)
		rows, err := s.Rows(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) > 0 && slices.Max(slices.Collect(maps.Keys(rows))) >= segments {
			return
		}
	}
}

// wantKept checks that what was to stay has.
func wantKept(t *testing.T, sh store.Shard) {
	t.Helper()
	servertest.WantNames(t, sh, "kept-1", "kept-2", "kept-3")
	list, err := sh.List(t.Context(), store.ListQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if string(r.Spec) != "spec of "+r.Name {
			t.Errorf("the spec of %s is %q", r.Name, r.Spec)
		}
	}
	for _, kind := range []byte{store.KindNamespace, store.KindTold} {
		m, err := sh.MetaRecords(t.Context(), store.MetaQuery{Kind: kind, Limit: 10})
		if err != nil || len(m) != 1 {
			t.Errorf("metadata records of kind %c: %v, %v", kind, m, err)
		}
	}
}

func cleaned(t *testing.T, n *realserver.Cassandra) {
	o := cassandra.Small(fresh(t, n), small)
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	churn(t, s, sh, 12)
	// the cleaner works beside: it has caught up when there is little more than is of use
	servertest.Until(t, func() error {
		servertest.Want(t, "a batch", sh, tick(1, "kept-1"), store.Applied)
		rows, err := s.Rows(t.Context(), 3)
		sum := 0
		for _, n := range rows {
			sum += n
		}
		if sum > 4*small {
			return fmt.Errorf("rows %v, %w", rows, errors.Join(err, errors.New("too many")))
		}
		return err
	})
	first, err := s.First(t.Context(), 3)
	if err != nil || first < 5 {
		t.Errorf("the log begins with segment %d, %v", first, err)
	}
	wantKept(t, sh)
	other := open(t, o)
	wantKept(t, servertest.Shard(t, other, 3, store.Term{}))
	taken := servertest.Reown(t, other, 3)
	wantKept(t, taken)
	servertest.Want(t, "the owner before", sh, servertest.Batch("late"), store.Fenced)
	churn(t, other, taken, 20)
	wantKept(t, taken)
	wantKept(t, sh)
}

func follows(t *testing.T, n *realserver.Cassandra) {
	o := cassandra.Small(fresh(t, n), small)
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "put", sh, servertest.Batch("early"), store.Applied)
	reader := servertest.Shard(t, open(t, o), 3, store.Term{})
	servertest.WantNames(t, reader, "early")
	servertest.Want(t, "delete", sh, &store.Batch{Deletes: []store.Ref{servertest.Job("early").Ref}}, store.Applied)
	churn(t, s, sh, 4)
	wantKept(t, reader)
	churn(t, s, sh, 12)
	wantKept(t, reader)
	if gone, err := s.First(t.Context(), 3); err != nil || gone < 2 {
		t.Errorf("nothing was cleaned: %d, %v", gone, err)
	}
}

func notBegunAgain(t *testing.T, n *realserver.Cassandra) {
	s := open(t, cassandra.Small(fresh(t, n), small))
	sh, _ := servertest.Own(t, s, 3)
	churn(t, s, sh, 12)
	first, err := s.First(t.Context(), 3)
	if err != nil || first < 2 {
		t.Fatalf("nothing was cleaned: %d, %v", first, err)
	}
	for segment := 1; segment < first; segment++ {
		if begun, err := s.Begin(t.Context(), 3, segment); begun || err != nil {
			t.Errorf("segment %d is begun again: %v", segment, err)
		}
	}
}

func settingsAlone(t *testing.T, n *realserver.Cassandra) {
	o := cassandra.Small(fresh(t, n), small)
	s, other := open(t, o), open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	churn(t, s, sh, 5) // they go with the log from segment to segment
	if n, err := other.Settings(t.Context(), 3); err != nil || n != 1 {
		t.Errorf("%d settings, %v", n, err)
	}
	servertest.Want(t, "delete", sh, &store.Batch{MetaRecords: []store.MetaRecord{{Kind: store.KindNamespace, Key: "n"}}}, store.Applied)
	if n, err := other.Settings(t.Context(), 3); err != nil || n != 0 {
		t.Errorf("%d settings after they were deleted, %v", n, err)
	}
	if n, err := other.Settings(t.Context(), 5); err != nil || n != 0 {
		t.Errorf("%d settings of a partition that nobody has written to, %v", n, err)
	}
}

// A node that has become the owner and was killed before it began the log leaves a partition that is empty.
func halfClaimed(t *testing.T, n *realserver.Cassandra) {
	o := fresh(t, n)
	s := open(t, o)
	session, err := n.Session()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	err = session.Query(`INSERT INTO ` + o.Keyspace + `.owners (cluster, partition, node, epoch, nonce, until, given, first) ` +
		`VALUES (0, 3, 'gone', 7, 7, 0, 1, 1) IF NOT EXISTS`).Exec()
	if err != nil {
		t.Fatal(err)
	}
	reader := servertest.Shard(t, s, 3, store.Term{})
	servertest.WantNames(t, reader)
	if m, err := reader.MetaRecords(t.Context(), store.MetaQuery{Kind: store.KindTold, Limit: 1}); err != nil || len(m) > 0 {
		t.Errorf("metadata records %v, %v", m, err)
	}
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "a batch", sh, servertest.Batch("a"), store.Applied)
	servertest.WantNames(t, reader, "a")
}

// warnings counts what a store warns of.
type warnings struct {
	slog.Handler
	of    string
	count atomic.Int64
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, w.of) {
		w.count.Add(1)
	}
	return nil
}

// What a segment has lost is not made final by taking the segment away: the log grows, and the node says so.
func torn(t *testing.T, n *realserver.Cassandra) {
	o := cassandra.Small(fresh(t, n), small)
	said := &warnings{of: "could not be cleaned"}
	o.Log = slog.New(said)
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	for i := range 6 { // all are of use: nothing is to be cleaned yet
		var names []string
		for j := range 10 {
			names = append(names, fmt.Sprint("job-", i, j))
		}
		servertest.Want(t, "put", sh, servertest.Batch(names...), store.Applied)
	}
	session, err := n.Session()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Query(`DELETE FROM ` + o.Keyspace +
		`.changes WHERE partition = 3 AND segment = 1 AND number = 2 AND item = 5`).Exec(); err != nil {
		t.Fatal(err)
	}
	for round := 0; said.count.Load() == 0; round++ {
		servertest.Want(t, "tick", sh, tick(round, "job-00"), store.Applied)
	}
	if first, err := s.First(t.Context(), 3); err != nil || first != 1 {
		t.Errorf("the log begins with segment %d, %v", first, err)
	}
	if _, err := servertest.Shard(t, open(t, o), 3, store.Term{}).List(t.Context(), store.ListQuery{Limit: 1}); !errors.Is(err,
		store.ErrDamaged) {
		t.Errorf("a log with a hole is read: %v", err)
	}
}

// An owner that was fenced while its last segment was full does not overwrite the next one, which is that of
// the owner after it.
func fencedRoll(t *testing.T, n *realserver.Cassandra) {
	o := cassandra.Small(fresh(t, n), small)
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	var names []string
	for i := range small {
		names = append(names, fmt.Sprintf("job-%02d", i))
	}
	servertest.Want(t, "full", sh, servertest.Batch(names...), store.Applied)
	other := open(t, o)
	next := servertest.Reown(t, other, 3)
	servertest.Want(t, "the next segment", next, servertest.Batch("next"), store.Applied)
	servertest.Want(t, "the owner before", sh, servertest.Batch("late"), store.Fenced)
	wanted := append(slices.Clone(names), "next", "after")
	servertest.Want(t, "after it", next, servertest.Batch("after"), store.Applied)
	slices.Sort(wanted)
	servertest.WantNames(t, next, wanted...)
	servertest.WantNames(t, servertest.Shard(t, open(t, o), 3, store.Term{}), wanted...)
}

// A store ends while partitions are being gathered.
func gathersAndCloses(t *testing.T, n *realserver.Cassandra) {
	o := fresh(t, n)
	for range 5 {
		s, err := cassandra.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		begun := make(chan struct{}, 8)
		for range cap(begun) {
			calls.Go(func() {
				for told := false; ; told = true {
					_, err := s.Gather(t.Context(), store.KindNamespace, []int{1, 2, 3, 4, 5, 6, 7, 8})
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if !told {
						begun <- struct{}{}
					}
				}
			})
		}
		<-begun
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		calls.Wait()
	}
}

// A batch that comes twice is applied once, and that it was is known although the second answer says no.
func comesTwice(t *testing.T, n *realserver.Cassandra) {
	o := fresh(t, n)
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("before"), store.Applied)
	if err := s.SendTwice(t.Context(), 3, servertest.Batch("a", "b")); err != nil {
		t.Errorf("twice: %v", err)
	}
	wanted := []string{"a", "b", "before"}
	servertest.WantNames(t, servertest.Shard(t, open(t, o), 3, store.Term{}), wanted...)
	rows, err := s.Rows(t.Context(), 3)
	if err != nil || rows[1] != 5 { // two batches with their first rows
		t.Errorf("rows %v, %v", rows, err)
	}
	servertest.WantNames(t, servertest.Reown(t, s, 3), wanted...)
}
