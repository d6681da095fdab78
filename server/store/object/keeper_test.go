package object_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// reluctant is a bucket that deletes an object when it is asked for the second time.
type reluctant struct {
	bucket.Bucket
	mu    sync.Mutex
	asked map[string]bool
}

func (r *reluctant) Delete(ctx context.Context, name string) error {
	r.mu.Lock()
	again := r.asked[name]
	r.asked[name] = true
	r.mu.Unlock()
	if !again {
		return errors.New("503 slow down")
	}
	return r.Bucket.Delete(ctx, name)
}

// TestWhatCannotBeDeletedAtFirst is deleted later, though the log that it belongs to goes on.
func TestWhatCannotBeDeletedAtFirst(t *testing.T) {
	b := &reluctant{Bucket: bucketOf(t, realserver.StartS3(t, bucketName)), asked: map[string]bool{}}
	o := object.Options{Bucket: b, Prefix: "reluctant", Every: time.Millisecond}
	s := servertest.Opened(t, object.Hurried(o, 2, 30*time.Millisecond), object.Open)
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "first", sh, servertest.Batch("first"), store.Applied)
	first, err := b.List(t.Context(), "reluctant/logs/", "", 1)
	if err != nil || len(first.Entries) != 1 {
		t.Fatalf("%v, %v", first, err)
	}
	n := 0
	servertest.Until(t, func() error {
		n++
		servertest.Want(t, "next", sh, servertest.Batch(fmt.Sprint("job-", n)), store.Applied)
		if _, err := b.Get(t.Context(), first.Entries[0].Name, ""); !errors.Is(err, bucket.ErrAbsent) {
			return fmt.Errorf("the first segment is still there: %w", err)
		}
		return nil
	})
}
