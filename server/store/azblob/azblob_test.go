package azblob_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/carillonhq/carillon/server/internal/testing/buckettest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/azblob"
	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/storetest"
)

const containerName = "carillon-test"

// made counts the stores: each has a prefix of its own.
var made atomic.Int64

// place is where a store is.
type place struct {
	azblob azblob.Options
	store  object.Options
}

// fresh are options of a store that is not there yet.
func fresh(server *realserver.Azure) place {
	return place{azblob.Options{Container: containerName, Account: server.Account, Endpoint: server.Endpoint(),
		Key: server.Key},
		object.Options{Prefix: fmt.Sprint("test-", made.Add(1)), Where: "the test's container", Every: time.Millisecond}}
}

func open(ctx context.Context, p place) (*object.Store, error) {
	return azblob.Open(ctx, p.azblob, p.store)
}

// start starts a server with a container.
func start(t *testing.T) *realserver.Azure {
	t.Helper()
	server := realserver.StartAzure(t)
	key, err := container.NewSharedKeyCredential(server.Account, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(server.Endpoint()+"/"+containerName, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return server
}

func TestBucket(t *testing.T) {
	b, err := azblob.New(t.Context(), fresh(start(t)).azblob, nil)
	if err != nil {
		t.Fatal(err)
	}
	buckettest.Run(t, b, "")
}

var long = flag.Bool("long", false, "run also what takes minutes")

// TestSuite runs the suite on Azurite, which has everything in memory and is not killed. Each of its requests
// takes some milliseconds of CPU: the cases of several goroutines are only for -long. What they prove is the
// engine's, and package s3 has them always.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("package s3 has the suite for -short")
	}
	server := start(t)
	o := servertest.Suite(t, servertest.Kind[place]{Open: servertest.As(open),
		Fresh: func(testing.TB) place { return fresh(server) }}, server)
	o.Crash = nil
	o.Seeds, o.Rounds = 1, 50 // each is some requests
	for _, c := range storetest.Cases() {
		if c.Applies(o) && (*long || !strings.HasPrefix(c.Name, "concurrent/")) {
			t.Run(c.Name, func(t *testing.T) { c.Check(t, o) })
		}
	}
}

// TestRefused: what will not pass by itself is not waited for; a server that is away is.
func TestRefused(t *testing.T) {
	server := start(t)
	for what, change := range map[string]func(o *azblob.Options){
		"no such container": func(o *azblob.Options) { o.Container = "another" },
		"a wrong key":       func(o *azblob.Options) { o.Key = "Z3Vlc3M=" },
	} {
		p := fresh(server)
		change(&p.azblob)
		if _, err := open(t.Context(), p); errors.Is(err, store.ErrAway) || !errors.Is(err, bucket.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p := fresh(server)
	server.Crash(t)
	if _, err := open(t.Context(), p); !errors.Is(err, store.ErrAway) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestParseURL(t *testing.T) {
	o, to, err := azblob.ParseURL("azblob://my-container/a/b?account=me&endpoint=http://h:9000&commit-every=250ms")
	if err != nil || o != (azblob.Options{Container: "my-container", Account: "me", Endpoint: "http://h:9000"}) ||
		to.Prefix != "a/b" || to.Every != 250*time.Millisecond {
		t.Errorf("%+v, %+v, %v", o, to, err)
	}
	for url, want := range map[string]string{
		"azblob:///prefix":            "azblob://BUCKET/PREFIX",
		"azblob://me:key@c":           "credentials come from the environment",
		"azblob://c?region=r":         `no parameter "region"`,
		"azblob://c?endpoint=ftp://h": "must be a URL",
	} {
		if _, _, err := azblob.ParseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		} else if strings.Contains(err.Error(), "key@") {
			t.Errorf("%s: the error repeats the key: %v", url, err)
		}
	}
}
