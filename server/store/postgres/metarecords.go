package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// MetaRecords returns the metadata records of a kind in key order.
func (s *shard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if q.Limit <= 0 {
		return nil, ctx.Err()
	}
	var c conditions
	c.add("SELECT key, value FROM carillon_small WHERE partition = ", c.arg(s.partition), " AND kind = ",
		c.arg(int16(q.Kind)))
	if q.After != "" {
		c.add(" AND key > ", c.arg([]byte(q.After)))
	}
	if q.Prefix != "" {
		c.add(" AND key >= ", c.arg([]byte(q.Prefix)))
		if end := ordered.After([]byte(q.Prefix)); end != nil {
			c.add(" AND key < ", c.arg(end))
		}
	}
	c.add(" ORDER BY key LIMIT ", c.arg(q.Limit))
	return query(ctx, s.s, func(row pgx.CollectableRow) (store.MetaRecord, error) {
		x := store.MetaRecord{Kind: q.Kind}
		var key []byte
		err := row.Scan(&key, &x.Value)
		x.Key = string(key)
		return x, err
	}, string(c.sql), c.args...)
}
