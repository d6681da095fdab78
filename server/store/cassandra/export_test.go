package cassandra

import (
	"context"
	"net"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// Through returns options of a store that reaches nodes of Cassandra through other ports of this machine, by
// their own.
func Through(o Options, ports map[int]int) Options {
	o.translate = gocql.AddressTranslatorFunc(func(addr net.IP, port int) (net.IP, int) {
		if to, ok := ports[port]; ok {
			return addr, to
		}
		return addr, port
	})
	return o
}

// Small returns options of a store with segments of so many rows, which it cleans when there are as many more
// than are of use.
func Small(o Options, rows int) Options {
	o.limits = limits{segment: size{rows, 1 << 30}, spare: size{rows, 1 << 30}}
	return o
}

// MostRows is how many rows of a batch are written at once.
const MostRows = mostRows

// Rows are how many rows the logs of a partition have, by segment.
func (s *Store) Rows(ctx context.Context, partition int) (map[int]int, error) {
	out := map[int]int{}
	err := s.wire.each(ctx, gocql.Quorum,
		statement{text: `SELECT partition, segment, number FROM $changes`}, func() { clear(out) },
		func(scan func(...any) error) error {
			var p, segment int
			var number *int64
			err := scan(&p, &segment, &number)
			if p == partition && number != nil {
				out[segment]++
			}
			return err
		})
	return out, err
}

// First is the first segment of a partition's log.
func (s *Store) First(ctx context.Context, partition int) (int, error) {
	return s.replicas[partition].firstOf(ctx)
}

// Begin begins a segment, as a node does that was held up since before it was begun.
func (s *Store) Begin(ctx context.Context, partition, segment int) (bool, error) {
	return s.wire.cas(ctx, statement{`UPDATE $changes SET epoch = 1, nonce = 1, start = 0, last = 0 ` +
		`WHERE partition = ? AND segment = ? IF epoch = null AND start = null`, []any{partition, segment}})
}

// Settings are how many settings a partition has that is not in memory.
func (s *Store) Settings(ctx context.Context, partition int) (int, error) {
	r := s.replicas[partition]
	r.forget()
	p, err := r.settings(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for range p.AllMetaRecords() {
		n++
	}
	return n, nil
}

// SendTwice sends a batch twice, of a partition that this process has, as one that came twice on its way, and
// returns what is known after the second answer.
func (s *Store) SendTwice(ctx context.Context, partition int, b *store.Batch) error {
	r := s.replicas[partition]
	if err := r.turn.Take(ctx, nil); err != nil {
		return err
	}
	defer r.turn.Give()
	v := r.is.Load()
	is, touched := v.holds.Copy(), contents.NewTouched()
	is.Change(b, touched)
	o, err := build(b, touched, v.holds, is)
	if err != nil {
		return err
	}
	header := o.after(v)
	if err := r.send(ctx, v, header, o); err != nil {
		return err
	}
	return r.send(ctx, v, header, o)
}
