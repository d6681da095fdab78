package gcs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/buckettest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/gcs"
	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/storetest"
)

const bucketName = "carillon-test"

// made counts the stores: each has a prefix of its own.
var made atomic.Int64

// place is where a store is.
type place struct {
	gcs   gcs.Options
	store object.Options
}

// fresh are options of a store that is not there yet.
func fresh(server *realserver.GCS) place {
	return place{gcs.Options{Bucket: bucketName, Endpoint: server.Endpoint(), Anonymous: true},
		object.Options{Prefix: fmt.Sprint("test-", made.Add(1)), Where: "the test's bucket", Every: time.Millisecond}}
}

func open(ctx context.Context, p place) (*object.Store, error) { return gcs.Open(ctx, p.gcs, p.store) }

func TestBucket(t *testing.T) {
	b, err := gcs.New(t.Context(), fresh(realserver.StartGCS(t, bucketName)).gcs, nil)
	if err != nil {
		t.Fatal(err)
	}
	buckettest.Run(t, b, "")
}

// TestSuite runs the suite on fake-gcs-server.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("package s3 has the suite for -short")
	}
	server := realserver.StartGCS(t, bucketName)
	o := servertest.Suite(t, servertest.Kind[place]{Open: servertest.As(open),
		Fresh: func(testing.TB) place { return fresh(server) }}, server)
	o.Seeds, o.Rounds = 1, 100 // each is some requests
	storetest.RunOptions(t, o)
}

// TestRefused: what will not pass by itself is not waited for; a server that is away is.
func TestRefused(t *testing.T) {
	server := realserver.StartGCS(t, bucketName)
	p := fresh(server)
	p.gcs.Bucket = "another"
	if _, err := open(t.Context(), p); errors.Is(err, store.ErrAway) || !errors.Is(err, bucket.ErrRefused) {
		t.Errorf("no such bucket: %v", err)
	}
	p = fresh(server)
	server.Crash(t)
	if _, err := open(t.Context(), p); !errors.Is(err, store.ErrAway) {
		t.Errorf("nobody there: %v", err)
	}
}

// TestReplaced: a store that is not there any more, or is another one, is not written to.
func TestReplaced(t *testing.T) {
	server := realserver.StartGCS(t, bucketName)
	p := fresh(server)
	servertest.Replaced(t, servertest.Opened(t, p, open), func() {
		if err := os.RemoveAll(filepath.Join(server.Folder, bucketName, p.store.Prefix)); err != nil {
			t.Fatal(err)
		}
	}, func() { servertest.Opened(t, p, open) }, object.ErrReplaced)
}

func TestParseURL(t *testing.T) {
	o, to, err := gcs.ParseURL("gs://my-bucket/a/b?endpoint=http://h:9000/&anonymous=yes&commit-every=250ms")
	if err != nil || o != (gcs.Options{Bucket: "my-bucket", Endpoint: "http://h:9000", Anonymous: true}) ||
		to.Prefix != "a/b" || to.Every != 250*time.Millisecond {
		t.Errorf("%+v, %+v, %v", o, to, err)
	}
	for url, want := range map[string]string{
		"gs:///prefix":           "gs://BUCKET/PREFIX",
		"gs://b?region=r":        `no parameter "region"`,
		"gs://b?anonymous=1":     "must be yes or no",
		"gs://b?endpoint=h:9000": "must be a URL",
	} {
		if _, _, err := gcs.ParseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
