package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// somePartitions returns n partitions that this node does not own.
func somePartitions(n int, peers message.Partitions) *partitions {
	ps := &partitions{macKey: []byte("key"), peers: peers, now: func() int64 { return 10 }}
	for i := range n {
		ps.parts = append(ps.parts, &partitionRunner{number: i})
	}
	return ps
}

// TestPartitionsAreFound: by number, by job, by namespace and by token.
func TestPartitionsAreFound(t *testing.T) {
	ps := somePartitions(4, nil)
	for n, there := range map[int]bool{-1: false, 0: true, 3: true, 4: false} {
		if p, err := ps.part(n); (err == nil) != there || there && p.number != n {
			t.Errorf("partition %d: %v, %v", n, p, err)
		}
	}
	key := carillon.Key{Namespace: "default", Name: "job"}
	if p := ps.of(key); p.number != store.PartitionOf(key, 4) {
		t.Errorf("a job in partition %d", p.number)
	}
	if p := ps.ofNamespace("default"); p != ps.of(carillon.Key{Namespace: "default"}) {
		t.Errorf("settings in partition %d", p.number)
	}
	run := store.RunID{UID: store.NewUID(key, [8]byte{1}), Partition: uint16(ps.of(key).number)}
	for name, c := range map[string]struct {
		key   string
		in    uint16
		found bool
	}{"of this store": {"key", run.Partition, true}, "of another store": {"another", run.Partition, false},
		"of before it moved": {"key", 4711, true}} {
		was := run
		was.Partition = c.in
		token := message.NewSigner([]byte(c.key)).Sign(message.Token{Run: was})
		if tok, p := ps.token(token); (p != nil) != c.found || c.found && (p != ps.of(key) || tok.Run != run) {
			t.Errorf("a token %s: found %t, %+v", name, p != nil, tok)
		}
	}
}

// counter counts what it is asked, and replies n.
type counter struct{ asked, n int }

func (c *counter) Ask(context.Context, int, message.Message) (any, error) {
	c.asked++
	return c.n, nil
}

// TestPeersFinishWhatWasBegun: only if some of it is done and another node has the rest.
func TestPeersFinishWhatWasBegun(t *testing.T) {
	moved, broken := notOwner(1), errors.New("broken")
	for name, c := range map[string]struct {
		done  int
		err   error
		asked int
		total int
		want  error
	}{
		"all is done":         {3, nil, 0, 3, nil},
		"the partition moved": {3, moved, 1, 8, nil},
		"before anything":     {0, moved, 0, 0, message.ErrNotOwner},
		"something else":      {3, broken, 0, 3, broken},
	} {
		t.Run(name, func(t *testing.T) {
			peers := &counter{n: 5}
			ps := somePartitions(2, peers)
			n, err := ps.finish(t.Context(), c.done, c.err, ps.parts[1], message.DeleteByPrefix{})
			if n != c.total || peers.asked != c.asked || !errors.Is(err, c.want) {
				t.Errorf("%d, %v; the peers were asked %d times", n, err, peers.asked)
			}
		})
	}
}
