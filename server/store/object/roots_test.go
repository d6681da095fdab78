package object_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// unchanging is a bucket whose objects cannot be replaced, for a reason.
type unchanging struct {
	bucket.Bucket
	why      error
	replaces atomic.Int64
}

func (u *unchanging) Replace(context.Context, string, []byte, bucket.Version) (bucket.Version, error) {
	u.replaces.Add(1)
	return "", u.why
}

// TestARootThatCannotBeReplaced: the caller is told why, after few requests: what is refused is not tried again,
// and a bucket that has too much to do gets time.
func TestARootThatCannotBeReplaced(t *testing.T) {
	b := bucketOf(t, realserver.StartS3(t, bucketName))
	busy := errors.New("503 slow down")
	for name, c := range map[string]struct {
		why  error
		most int64
	}{"refused": {bucket.ErrRefused, 1}, "busy": {busy, 8}} {
		t.Run(name, func(t *testing.T) {
			u := &unchanging{Bucket: b, why: c.why}
			s := servertest.Opened(t, object.Options{Bucket: u, Prefix: name, Timeout: time.Second}, object.Open)
			err := s.Leaser().Join(t.Context(), store.Member{ID: "n", Nonce: 1}, time.Minute)
			if !errors.Is(err, c.why) {
				t.Errorf("join: %v, want %v", err, c.why)
			}
			if n := u.replaces.Load(); n > c.most {
				t.Errorf("%d requests, want at most %d", n, c.most)
			}
		})
	}
}
