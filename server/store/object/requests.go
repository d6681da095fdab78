package object

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// requests is a bucket whose requests are counted, because they cost money, and end after a while: one whose
// answer never ends would hold up whoever waits for it, and Close.
type requests struct {
	to     bucket.Bucket
	within time.Duration

	reads, writes atomic.Int64
}

func (r *requests) begin(ctx context.Context, kind *atomic.Int64) (context.Context, context.CancelFunc) {
	kind.Add(1)
	return context.WithTimeout(ctx, r.within)
}

func (r *requests) Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error) {
	ctx, done := r.begin(ctx, &r.reads)
	defer done()
	return r.to.Get(ctx, name, known)
}

func (r *requests) Create(ctx context.Context, name string, data []byte) (bucket.Version, error) {
	ctx, done := r.begin(ctx, &r.writes)
	defer done()
	return r.to.Create(ctx, name, data)
}

func (r *requests) Replace(ctx context.Context, name string, data []byte,
	was bucket.Version) (bucket.Version, error) {
	ctx, done := r.begin(ctx, &r.writes)
	defer done()
	return r.to.Replace(ctx, name, data, was)
}

func (r *requests) Delete(ctx context.Context, name string) error {
	ctx, done := r.begin(ctx, &r.writes)
	defer done()
	return r.to.Delete(ctx, name)
}

func (r *requests) List(ctx context.Context, prefix, after string, limit int) (bucket.Page, error) {
	ctx, done := r.begin(ctx, &r.writes)
	defer done()
	return r.to.List(ctx, prefix, after, limit)
}

// Requests implements [store.Meter].
func (s *Store) Requests() (reads, writes int64) {
	return s.bucket.reads.Load(), s.bucket.writes.Load()
}
