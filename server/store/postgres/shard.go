package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/store"
)

// shard is a partition as the owner of one term sees it.
type shard struct {
	s         *Store
	partition int
	term      store.Term
}

var _ store.Shard = (*shard)(nil)

// Apply makes the batch durable: whole, or not at all.
func (s *shard) Apply(ctx context.Context, b *store.Batch) error {
	return s.s.ApplyGroup(ctx, []store.Write{{Shard: s, Batch: b}})
}

// query reads rows. It does so again if the connection turns out to be dead, as all of the pool may be whose
// server was started again: they are tried before a new one is made.
func query[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], sql string,
	args ...any) (out []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for tries := 0; ; tries++ {
		out, err = queryOnce(ctx, s, scan, sql, args)
		if again := broken(err) && tries <= s.conns || lost(err) && tries == 0; !again || ctx.Err() != nil {
			return out, err
		}
	}
}

func queryOnce[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], sql string,
	args []any) ([]T, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	rows, _ := s.pool.Query(ctx, sql, args...) // its error is that of the rows
	out, err := pgx.AppendRows([]T(nil), rows, scan)
	return out, failed("read from PostgreSQL", err)
}

// conditions builds a WHERE clause with numbered arguments.
type conditions struct {
	sql  []byte
	args []any
}

// arg adds an argument and returns its place, "$n".
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return "$" + strconv.Itoa(len(c.args))
}

func (c *conditions) add(parts ...string) {
	for _, p := range parts {
		c.sql = append(c.sql, p...)
	}
}
