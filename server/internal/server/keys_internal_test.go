package server

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
)

// TestOverlapsEndWithoutTheStore: a store that does not answer keeps no old secret in force.
func TestOverlapsEndWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		k := &keeper{node: &Node{config: Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}}, end: end,
			read: func(ctx context.Context) ([]access.Key, []error, error) {
				<-ctx.Done()
				return nil, nil, ctx.Err()
			}}
		n := carillon.NewKey{Grants: []carillon.AccessGrant{{Role: carillon.RoleWorker, Namespaces: []string{"a"}}}}
		key, secret := access.New(n, "test", time.Now())
		k.ring.Replace([]access.Key{key})
		p, err := k.ring.Find(secret, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		stream, release := p.Hold(t.Context(), time.Now())
		defer release()
		next, _ := key.Rotate("test", time.Second, time.Now())
		k.ring.Replace([]access.Key{next})
		k.begin(life)
		time.Sleep(time.Second - 1) //nolint:forbidigo // in a bubble
		synctest.Wait()
		if stream.Err() != nil {
			t.Error("a stream of the old secret has ended before that")
		}
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		synctest.Wait()
		if stream.Err() == nil {
			t.Error("a stream goes on whose secret is over")
		}
		k.close()
	})
}
