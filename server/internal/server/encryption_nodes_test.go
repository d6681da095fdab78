package server_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// keyedNode is a node of a cluster with a file of keys of its own.
type keyedNode struct {
	*server.Server
	t      *testing.T
	file   keyset.File
	reload chan os.Signal
	log    *lines
	stop   func()
}

func newKeyedNode(t *testing.T, url, name string, keys []byte) *keyedNode {
	t.Helper()
	n := &keyedNode{t: t, file: keyset.File{Path: t.TempDir() + "/keys.json"}, reload: make(chan os.Signal, 1), log: &lines{}}
	n.have(keys)
	n.Server, n.stop = serveUntil(t, server.Config{Store: url, Name: name, Partitions: 8, DrainGrace: patience,
		Log: slog.New(slog.NewTextHandler(n.log, nil)), LeaseTTL: time.Second,
		Extensions: server.Extensions{Encryption: server.Encryption{Keys: n.file.Path, Reload: n.reload}}})
	t.Cleanup(n.stop)
	return n
}

// have gives the node a file.
func (n *keyedNode) have(keys []byte) {
	n.t.Helper()
	if err := os.WriteFile(n.file.Path, keys, 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// reread has the node read its file, and waits until it has.
func (n *keyedNode) reread(said string) {
	n.t.Helper()
	before := n.log.containing(said)
	n.reload <- os.Interrupt
	eventually(n.t, "the log says "+said, func() bool { return n.log.containing(said) > before })
}

// bytes is the node's file.
func (n *keyedNode) bytes() []byte {
	n.t.Helper()
	b, err := os.ReadFile(n.file.Path)
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

// TestARotationAmongNodes: a key that is on all nodes before it is promoted is in use at once. Where it is missing,
// because it was promoted too early, partitions are left alone, and the node says which key it lacks, until it has
// it. A file that lacks a key that the store needs is not put in force.
func TestARotationAmongNodes(t *testing.T) {
	url := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	file := newKeysFile(t)
	keys, err := os.ReadFile(file.Path)
	if err != nil {
		t.Fatal(err)
	}
	a := newKeyedNode(t, url, "a", keys)
	b := newKeyedNode(t, url, "b", keys)
	spread(t, a.Server, 2)
	api, puts := dial(t, a.Server), 0
	put := func() {
		t.Helper()
		for range 40 {
			puts++
			j := markedJob(fmt.Sprint("job-", puts), "http://example.com")
			j.Due = carillon.In(time.Hour)
			if _, err := api.PutJob(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
	}
	put()
	_, second, err := a.file.Add()
	if err != nil {
		t.Fatal(err)
	}
	const again = "the keys of encryption were read again"
	a.reread(again)
	b.have(a.bytes())
	b.reread(again)
	if _, err := a.file.Promote(second); err != nil {
		t.Fatal(err)
	}
	a.reread(again) // b goes on with the first one, and reads what a writes
	put()
	page, err := dial(t, b.Server).ListJobs(t.Context(), carillon.JobQuery{Namespace: "shop", PageSize: 1000})
	if err != nil || len(page.Jobs) != puts || page.Jobs[puts-1].Note != secretMark+" note" {
		t.Errorf("the other node lists %d of %d jobs, %v", len(page.Jobs), puts, err)
	}
	b.have(keys)
	b.reread("stay as they were")
	b.have(a.bytes())

	_, third, err := a.file.Add() // and it is promoted before b has it
	if err == nil {
		_, err = a.file.Promote(third)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.reread(again)
	put()
	whole := a.bytes()
	a.stop()
	id := fmt.Sprintf("%08x", third)
	eventually(t, "b says which key it lacks", func() bool { return b.log.containing(id) > 0 })
	refused, read := 0, 0
	for i := range puts {
		_, err := dial(t, b.Server).GetJob(t.Context(), carillon.Key{Namespace: "shop", Name: fmt.Sprint("job-", i+1)})
		switch {
		case err == nil:
			read++
		case strings.Contains(err.Error(), id) && errors.Is(err, carillon.FailedPrecondition):
			refused++
		default:
			t.Errorf("a job of a partition whose key is missing: %v", err)
		}
		if refused > 0 && read > 0 {
			break
		}
	}
	if refused == 0 || read == 0 {
		t.Errorf("%d jobs are refused, and %d read", refused, read)
	}
	b.have(whole)
	b.reread(again)
	eventually(t, "b owns all partitions", func() bool { return b.Node().Ready() == nil })
	for i := range puts {
		j, err := dial(t, b.Server).GetJob(t.Context(), carillon.Key{Namespace: "shop", Name: fmt.Sprint("job-", i+1)})
		if err != nil || j.Note != secretMark+" note" {
			t.Fatalf("%+v, %v", j, err)
		}
	}
}

// TestANodeWithoutKeysSaysSo, among nodes that have keys, before anything is encrypted: from then on it would not
// start.
func TestANodeWithoutKeysSaysSo(t *testing.T) {
	url := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	keys, err := os.ReadFile(newKeysFile(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	newKeyedNode(t, url, "keyed", keys)
	log := &lines{}
	_, stop := serveUntil(t, server.Config{Store: url, Name: "plain", DrainGrace: patience, LeaseTTL: time.Second,
		Log: slog.New(slog.NewTextHandler(log, nil))})
	defer stop()
	eventually(t, "the log says who has no keys", func() bool {
		return log.containing("encryption at rest differs: no --encryption-keys on plain; with --encryption-keys on keyed") > 0
	})
}

// TestAJobThatCannotBeDecryptedDoesNotRun, although it is due: it says why. Others run.
func TestAJobThatCannotBeDecryptedDoesNotRun(t *testing.T) {
	runs := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		runs <- r.Header.Get("Carillon-Job")
	}))
	defer target.Close()
	file := newKeysFile(t)
	c := server.Config{Store: "pebble:" + t.TempDir(), Partitions: 1, Extensions: server.Extensions{Encryption: server.Encryption{Keys: file.Path}},
		Targets: server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	s, stop := serveUntil(t, c)
	names := []string{"changed", "moved", "sound"}
	for _, name := range names {
		j := markedJob(name, target.URL)
		j.Due = carillon.In(time.Hour)
		if _, err := dial(t, s).PutJob(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	tamper(t, c.Store, func(records []store.Record) {
		changed, moved, sound := &records[0], &records[1], &records[2]
		changed.Spec[len(changed.Spec)-1] ^= 1
		moved.Spec = sound.Spec
		for i := range records { // all are due
			r := &records[i]
			r.State.Due, r.State.Next, r.State.Anchor = 1, r.State.Created, r.State.Created
		}
	})
	s, stop = serveUntil(t, c)
	defer stop()
	if got := await(t, runs); got != "shop/sound" {
		t.Errorf("%s runs", got)
	}
	keys, err := file.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[:2] {
		j, err := dial(t, s).GetJob(t.Context(), carillon.Key{Namespace: "shop", Name: name})
		if text := fmt.Sprint(j.Note, err); !strings.Contains(text, fmt.Sprintf("%08x", keys.Primary())) ||
			strings.Contains(text, secretMark) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if len(runs) > 0 {
		t.Errorf("%s runs", <-runs)
	}
}

// tamper changes the jobs of a store with one partition, as somebody does who can write to it.
func tamper(t *testing.T, url string, by func([]store.Record)) {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	frozen, ctx, err := transfer.Freeze(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(0, frozen.Term(0))
	if err != nil {
		t.Fatal(err)
	}
	records, err := shard.List(ctx, store.ListQuery{Namespace: "shop", Limit: 10})
	if err != nil || codec.SpecSealedBy(records[0].Spec) == 0 {
		t.Fatalf("%+v, %v", records, err)
	}
	by(records)
	if err := shard.Apply(ctx, &store.Batch{Puts: records}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(frozen.Thaw(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
}
