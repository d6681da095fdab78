package cassandra_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/cassandra"
)

// TestFaults ends, halts and cuts off a Cassandra of one node.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("Cassandra is slow")
	}
	n := realserver.StartCassandra(t, realserver.DurableCassandra()...)
	for _, c := range []struct {
		name string
		test func(t, whole *testing.T, n *realserver.Cassandra)
	}{
		{"no answer is unknown", noAnswer},
		{"a write is sent once", sentOnce},
		{"a batch is whole or nothing", wholeOrNothing},
		{"another store is not taken", anotherStore},
		{"nobody there", nobodyThere},
		{"another node in its place", anotherNode},
		{"a store begins above an epoch", beginsAbove},
	} {
		t.Run(c.name, func(part *testing.T) { c.test(part, t, n) }) // a server that is started again ends with all
	}
}

// A store whose records come from another one gives out terms above those of that one; and none is created
// for who wants to read one.
func beginsAbove(t, _ *testing.T, n *realserver.Cassandra) {
	o := fresh(t, n)
	o.Existing = true
	if _, err := cassandra.Open(t.Context(), o); !errors.Is(err, store.ErrNoStore) {
		t.Errorf("there is none: %v", err)
	}
	o.Existing, o.Epoch = false, 1<<40
	s := open(t, o)
	sh, held := servertest.Own(t, s, 3)
	if held.Term.Epoch <= o.Epoch {
		t.Errorf("an epoch of %d comes after one of %d", held.Term.Epoch, o.Epoch)
	}
	servertest.Want(t, "the first batch", sh, servertest.Batch("a"), store.Applied)
	o.Existing = true
	_ = open(t, o)
}

// Whether a batch was applied is unknown if no answer comes, and known again once the partition was claimed.
func noAnswer(t, _ *testing.T, n *realserver.Cassandra) {
	o := fresh(t, n)
	o.Timeout = time.Second
	var failed error
	recovered := false
	o.Events = store.Events{Failed: func(err error) { failed = err }, Recovered: func() { recovered = true }}
	servertest.NoAnswer(t, open(t, o), func() { n.Freeze(t) }, func() { n.Thaw(t) },
		func() error { return failed }, func() bool { return recovered })
}

// Nothing was applied if there is nobody to connect to.
func nobodyThere(t, whole *testing.T, n *realserver.Cassandra) {
	o := fresh(t, n)
	o.Timeout = time.Second
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	n.Crash(t)
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
	if _, err := cassandra.Open(t.Context(), o); !errors.Is(err, store.ErrAway) {
		t.Errorf("open where nobody is: %v", err)
	}
	n.Up(whole)
	again := servertest.Applied(t, s, 3, servertest.Batch("b"))
	if got := servertest.Names(t, again); !slices.Equal(got, []string{"b"}) && !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("jobs %q", got)
	}
}

// linked is a link to a node, and options of a store behind it.
func linked(t *testing.T, n *realserver.Cassandra) (*link.Link, cassandra.Options) {
	t.Helper()
	k, err := link.Listen(n.Address(), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	o := fresh(t, n)
	o.Addresses = []string{k.Address()}
	o.Timeout = time.Second
	_, text, err := net.SplitHostPort(k.Address())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return k, cassandra.Through(o, map[int]int{n.Port: port})
}

// A write whose answer and connection are lost is not sent again, and its outcome is unknown, or learnt from
// what the log says.
func sentOnce(t, _ *testing.T, n *realserver.Cassandra) {
	k, o := linked(t, n)
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	k.CutWay(link.Back, link.Broken)
	servertest.Want(t, "cut", sh, servertest.Batch("b"), store.Unknown)
	k.Heal()
	again := servertest.Reown(t, s, 3)
	got := servertest.Names(t, again)
	if !slices.Equal(got, []string{"a", "b"}) && !slices.Equal(got, []string{"a"}) {
		t.Errorf("jobs %q", got)
	}
	rows, err := s.Rows(t.Context(), 3)
	if err != nil || rows[1] > 4 {
		t.Errorf("rows %v, %v: b was written more than once", rows, err)
	}
}

// many is more than is written at once.
const many = cassandra.MostRows + 100

// The connection is cut at random moments of batches that need several writes. What another store reads is
// all of a batch, or nothing; what the next owner reads is that and stays so.
func wholeOrNothing(t, _ *testing.T, n *realserver.Cassandra) {
	k, o := linked(t, n)
	direct := o
	direct.Addresses = []string{n.Address()}
	reader := servertest.Shard(t, open(t, cassandra.Through(direct, nil)), 3, store.Term{})
	servertest.WholeOrNothing(t, open(t, o), reader, servertest.Cut{Break: func() { k.Cut(link.Broken) }, Heal: k.Heal},
		10, many, 300*time.Millisecond)
}

// Who opened a store claims nothing of another one in its place, or of none.
func anotherStore(t, _ *testing.T, n *realserver.Cassandra) {
	o := fresh(t, n)
	session, err := n.Session()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	servertest.Replaced(t, open(t, o), func() {
		for _, table := range []string{"store", "owners", "members", "changes"} {
			if err := session.Query("TRUNCATE " + o.Keyspace + "." + table).Exec(); err != nil {
				t.Fatal(err)
			}
		}
	}, func() { open(t, o) }, cassandra.ErrReplaced)
}

// A node that has lost all, and so is another one at the same address, is found again.
func anotherNode(t, whole *testing.T, n *realserver.Cassandra) {
	o := fresh(t, n)
	o.Timeout = time.Second
	s := open(t, o)
	servertest.Own(t, s, 3)
	n.Crash(t)
	n.Wipe(t)
	n.Up(whole)
	servertest.Until(t, func() error {
		_, err := s.Leaser().Claim(t.Context(), "node", []int{3}, servertest.Lease)
		if errors.Is(err, cassandra.ErrReplaced) {
			return nil
		}
		return fmt.Errorf("want another store: %w", err)
	})
}

// TestANodeIsLost kills each of three nodes in turn: the store goes on. With two of them lost it refuses or
// knows nothing, and goes on when one is back.
func TestANodeIsLost(t *testing.T) {
	skipUnlessLong(t)
	nodes := realserver.StartCassandraCluster(t, 3, realserver.DurableCassandra()...)
	o := fresh(t, nodes...)
	o.Timeout = 2 * time.Second
	servertest.LosesOne(t, open(t, o), nodes)
}

// TestABackupIsRestored: after Cassandra was restored from an older state, its owners are deposed and read
// what there is.
func TestABackupIsRestored(t *testing.T) {
	skipUnlessLong(t)
	n := realserver.StartCassandra(t, realserver.DurableCassandra()...)
	s := open(t, fresh(t, n))
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "kept", sh, servertest.Batch("kept"), store.Applied)
	n.Down(t)
	past := n.Copy(t)
	n.Up(t)
	servertest.Until(t, func() error { return sh.Apply(t.Context(), servertest.Batch("lost")) })
	servertest.WantNames(t, sh, "kept", "lost")
	n.Down(t)
	n.Restore(t, past)
	n.Up(t)
	servertest.WantNames(t, servertest.Shard(t, s, 3, store.Term{}), "kept")
	servertest.WantNames(t, sh, "kept")
	again := servertest.Applied(t, s, 3, servertest.Batch("new"))
	servertest.WantNames(t, again, "kept", "new")
}
