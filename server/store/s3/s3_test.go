package s3_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/carillonhq/carillon/server/internal/testing/buckettest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/s3"
	"github.com/carillonhq/carillon/server/store/storetest"
)

const bucketName = "carillon-test"

// made counts the stores: each has a prefix of its own.
var made atomic.Int64

// place is where a store is.
type place struct {
	s3    s3.Options
	store object.Options
}

// fresh are options of a store that is not there yet.
func fresh(server *realserver.S3) place {
	return place{
		s3.Options{Bucket: bucketName, Region: "us-east-1", Endpoint: server.Endpoint(), PathStyle: true,
			Credentials: credentials.NewStaticCredentialsProvider(server.Key, server.Secret, "")},
		object.Options{Prefix: fmt.Sprint("test-", made.Add(1)), Where: "the test's bucket",
			Every: time.Millisecond},
	}
}

func open(ctx context.Context, p place) (*object.Store, error) { return s3.Open(ctx, p.s3, p.store) }

func TestBucket(t *testing.T) {
	b, err := s3.New(t.Context(), fresh(realserver.StartS3(t, bucketName)).s3, nil)
	if err != nil {
		t.Fatal(err)
	}
	buckettest.Run(t, b, "")
}

// TestSuite runs the suite on versitygw.
func TestSuite(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	o := servertest.Suite(t, servertest.Kind[place]{Open: servertest.As(open),
		Fresh: func(testing.TB) place { return fresh(server) }}, server)
	o.Seeds, o.Rounds = 1, 100 // each is some requests
	storetest.RunOptions(t, o)
}

// TestRefused: what will not pass by itself is not waited for; a server that is away is.
func TestRefused(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	for what, change := range map[string]func(o *s3.Options){
		"no such bucket": func(o *s3.Options) { o.Bucket = "another" },
		"wrong credentials": func(o *s3.Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider(server.Key, "guess", "")
		},
	} {
		p := fresh(server)
		change(&p.s3)
		if _, err := open(t.Context(), p); err == nil || errors.Is(err, store.ErrAway) || !errors.Is(err, bucket.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
		b, err := s3.New(t.Context(), p.s3, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, listed := b.List(t.Context(), "", "", 1)
		_, created := b.Create(t.Context(), "x", nil)
		for call, err := range map[string]error{"list": listed, "create": created, "delete": b.Delete(t.Context(), "x")} {
			if !errors.Is(err, bucket.ErrRefused) {
				t.Errorf("%s: %s: %v", what, call, err)
			}
		}
	}
	p := fresh(server)
	server.Crash(t)
	if _, err := open(t.Context(), p); !errors.Is(err, store.ErrAway) {
		t.Errorf("nobody there: %v", err)
	}
}

// TestNoAnswerIsUnknown: so it is if the server is halted, and known again when it goes on.
func TestNoAnswerIsUnknown(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	p := fresh(server)
	p.store.Timeout = 2 * time.Second // for the opening, on a busy machine
	var failed atomic.Pointer[error]
	var recovered atomic.Bool
	p.store.Events = store.Events{Failed: func(err error) { failed.Store(&err) },
		Recovered: func() { recovered.Store(true) }}
	servertest.NoAnswer(t, servertest.Opened(t, p, open), func() { server.Freeze(t) }, func() { server.Thaw(t) },
		func() error { return *failed.Load() }, recovered.Load)
}

// TestReplaced: a store that is not there any more, or is another one, is not written to.
func TestReplaced(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	p := fresh(server)
	servertest.Replaced(t, servertest.Opened(t, p, open), func() {
		if err := os.RemoveAll(filepath.Join(server.Folder, bucketName, p.store.Prefix)); err != nil {
			t.Fatal(err)
		}
	}, func() { servertest.Opened(t, p, open) }, object.ErrReplaced)
}
