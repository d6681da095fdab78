package etcd_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/etcd"
)

// Whether a batch was applied is unknown if no answer comes, and known again once the partition was claimed.
func TestNoAnswerIsUnknown(t *testing.T) {
	m := realserver.StartEtcd(t)
	o := fresh(m)
	o.Timeout = time.Second
	var failed error
	recovered := false
	o.Events = store.Events{Failed: func(err error) { failed = err }, Recovered: func() { recovered = true }}
	servertest.NoAnswer(t, open(t, o), func() { m.Freeze(t) }, func() { m.Thaw(t) },
		func() error { return failed }, func() bool { return recovered })
}

// Nothing was applied if there is nobody to connect to.
func TestNobodyThere(t *testing.T) {
	m := realserver.StartEtcd(t)
	o := fresh(m)
	o.Timeout = time.Second
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	m.Crash(t)
	// the first ones may find out that their connection is broken, which is to know nothing
	servertest.Until(t, func() error {
		err := sh.Apply(t.Context(), servertest.Batch("a"))
		if outcome := store.OutcomeOf(err); outcome != store.NotApplied && outcome != store.Unknown {
			t.Fatalf("nobody there: %v", err)
		}
		if store.OutcomeOf(err) == store.NotApplied {
			return nil
		}
		return err
	})
	m.Up(t)
	again := servertest.Applied(t, s, 3, servertest.Batch("b"))
	if got := servertest.Names(t, again); !slices.Equal(got, []string{"b"}) && !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("jobs %q", got)
	}
	if _, err := etcd.Open(t.Context(), etcd.Options{Addresses: []string{"127.0.0.1:1"},
		Timeout: 100 * time.Millisecond}); !errors.Is(err, store.ErrAway) {
		t.Errorf("open where nobody is: %v", err)
	}
}

// linked is a link to a member, and options of a store behind it.
func linked(t *testing.T, m *realserver.Etcd) (*link.Link, etcd.Options) {
	t.Helper()
	k, err := link.Listen(m.Address(), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	o := fresh(m)
	o.Addresses = []string{k.Address()}
	o.Timeout = time.Second
	return k, o
}

// TestAWriteIsSentOnce loses the answer of a write and its connection: the write is not sent again, and its
// outcome is unknown.
func TestAWriteIsSentOnce(t *testing.T) {
	m := realserver.StartEtcd(t)
	k, o := linked(t, m)
	s := open(t, o)
	// A frame that the member still owes from before, say the answer to a ping, breaks the connection too. If it
	// comes first, nothing is sent, and the test begins again.
	servertest.Until(t, func() error {
		sh := servertest.Applied(t, s, 3, servertest.Batch("a"))
		k.CutWay(link.Back, link.Broken)
		defer k.Heal()
		err := sh.Apply(t.Context(), servertest.Batch("b"))
		switch store.OutcomeOf(err) {
		case store.Unknown:
			return nil
		case store.NotApplied:
			return err
		default:
			t.Fatalf("cut: %v", err)
			return nil
		}
	})
	again := servertest.Reown(t, s, 3)
	got := servertest.Names(t, again)
	if !slices.Equal(got, []string{"a", "b"}) && !slices.Equal(got, []string{"a"}) {
		t.Errorf("jobs %q", got)
	}
	written, err := s.Keys(t.Context(), "p/00003/jobs/")
	if err != nil || written["p/00003/jobs/default/b"] > 1 {
		t.Errorf("written %v, %v", written, err)
	}
}

// many is more than fits into a transaction of an etcd that is set up as usual.
const many = 300

// TestABatchIsWholeOrNothing cuts the connection at random moments of batches that need several transactions.
// What another store reads is all of a batch, or nothing; what the next owner reads is that and stays so.
func TestABatchIsWholeOrNothing(t *testing.T) {
	m := realserver.StartEtcd(t, realserver.VolatileEtcd()...)
	k, o := linked(t, m)
	s := open(t, o)
	direct := o
	direct.Addresses = []string{m.Address()}
	if s.MostOps() >= many {
		t.Fatalf("a transaction has %d operations: nothing is in parts", s.MostOps())
	}
	times := 40
	if testing.Short() {
		times = 10
	}
	servertest.WholeOrNothing(t, s, servertest.Shard(t, open(t, direct), 3, store.Term{}),
		servertest.Cut{Break: func() { k.Cut(link.Broken) }, Heal: k.Heal}, times, many, 25*time.Millisecond)
}

// TestNothingIsLeftOfParts: after a batch in parts there is no key but those of its records.
func TestNothingIsLeftOfParts(t *testing.T) {
	s := open(t, fresh(realserver.StartEtcd(t, realserver.VolatileEtcd()...)))
	sh, _ := servertest.Own(t, s, 3)
	var all []string
	for j := range many {
		all = append(all, fmt.Sprint("job-", j))
	}
	servertest.Want(t, "in parts", sh, servertest.Batch(all...), store.Applied)
	servertest.Want(t, "after it", sh, servertest.Batch("last"), store.Applied)
	keys, err := s.Keys(t.Context(), "p/00003/")
	if err != nil {
		t.Fatal(err)
	}
	for key, written := range keys {
		if !strings.HasPrefix(key, "p/00003/jobs/") || written != 1 {
			t.Errorf("the key %s was written %d times", key, written)
		}
	}
	if commits, err := s.Keys(t.Context(), "commits/"); err != nil || len(commits) > 0 || len(keys) != many+1 {
		t.Errorf("%d keys, commits %v, %v", len(keys), commits, err)
	}
}

// TestAMemberIsLost kills each of three members in turn: the store goes on. With two of them lost it refuses
// or knows nothing, and goes on when one is back.
func TestAMemberIsLost(t *testing.T) {
	members := realserver.StartEtcdCluster(t, 3, realserver.VolatileEtcd()...)
	o := fresh(members...)
	o.Timeout = 2 * time.Second
	servertest.LosesOne(t, open(t, o), members)
}

// TestEtcdGoesBack: after etcd was restored from an older state, its owners are deposed and read what there
// is.
func TestEtcdGoesBack(t *testing.T) {
	m := realserver.StartEtcd(t)
	s := open(t, fresh(m))
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "kept", sh, servertest.Batch("kept"), store.Applied)
	m.Down(t)
	past := m.Copy(t)
	m.Up(t)
	servertest.Until(t, func() error { return sh.Apply(t.Context(), servertest.Batch("lost")) })
	servertest.WantNames(t, sh, "kept", "lost")
	m.Down(t)
	m.Restore(t, past)
	m.Up(t)
	servertest.WantNames(t, servertest.Shard(t, s, 3, store.Term{}), "kept")
	servertest.WantNames(t, sh, "kept")
	again := servertest.Applied(t, s, 3, servertest.Batch("new"))
	servertest.WantNames(t, again, "kept", "new")
}

// TestAnotherStoreIsNotTaken: who opened a store claims nothing of another one in its place, or of none.
func TestAnotherStoreIsNotTaken(t *testing.T) {
	m := realserver.StartEtcd(t)
	o := fresh(m)
	servertest.Replaced(t, open(t, o), func() { m.Crash(t); m.Wipe(t); m.Up(t) }, func() { open(t, o) }, etcd.ErrReplaced)
}
