package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// query reads rows.
func query[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], sql string,
	args ...any) ([]T, error) {
	return asked(ctx, s, "read from PostgreSQL", s.conns+1, func(ctx context.Context) ([]T, error) {
		return rowsOf(ctx, s.pool, scan, sql, args)
	})
}

func rowsOf[T any](ctx context.Context, pool *pgxpool.Pool, scan pgx.RowToFunc[T], sql string,
	args []any) ([]T, error) {
	rows, _ := pool.Query(ctx, sql, args...) // its error is that of the rows
	return pgx.AppendRows([]T(nil), rows, scan)
}

// asked does something that may be done twice, and does it again, up to so many times, where the server has
// rolled it back, or where a connection turns out to be dead, as all of a pool may be whose server was
// started again: they are tried before a new one is made. Whether it was done before is not known then.
func asked[T any](ctx context.Context, s *Store, what string, again int,
	do func(context.Context) ([]T, error)) (out []T, err error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for tries := 0; ; tries++ {
		out, err = do(ctx)
		passing := rolledBack(err) || broken(err) || lost(err) && tries == 0
		if !passing || tries >= again || ctx.Err() != nil {
			return out, failed(what, err)
		}
	}
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
