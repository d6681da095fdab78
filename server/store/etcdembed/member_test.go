package etcdembed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/etcd"
	"github.com/carillonhq/carillon/server/store/etcdembed"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// cluster is some members on this machine.
type cluster struct {
	t      *testing.T
	folder string
	peers  []etcdembed.Peer
}

func newCluster(t *testing.T, members int) *cluster {
	t.Helper()
	h := &cluster{t: t, folder: t.TempDir()}
	for i := range members {
		h.peers = append(h.peers, etcdembed.Peer{Name: fmt.Sprint("n", i), Host: "127.0.0.1", Port: realserver.PortPair(t) + 1})
	}
	t.Cleanup(func() {
		for i := range h.peers {
			etcdembed.EndWaiting(h.options(i))
		}
	})
	return h
}

func (h *cluster) options(i int) etcdembed.Options {
	o := etcdembed.Options{Folder: filepath.Join(h.folder, h.peers[i].Name), Member: h.peers[i].Name, Peers: h.peers}
	for _, p := range h.peers {
		o.Store.Addresses = append(o.Store.Addresses, fmt.Sprint(p.Host, ":", p.Port-1))
	}
	o.Store.Quota, o.Store.Timeout = 1<<30, 30*time.Second // the disk may be a busy one
	// a member that cannot go on ends the process: what it logs last must be seen
	o.Store.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return o
}

// open opens a store until the others are there.
func (h *cluster) open(i int) *etcdembed.Store {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	for {
		s, err := etcdembed.Open(ctx, h.options(i))
		if err == nil {
			return s
		}
		if !errors.Is(err, store.ErrAway) || ctx.Err() != nil {
			h.t.Fatalf("open %d: %v", i, err)
		}
	}
}

// all opens all stores at once.
func (h *cluster) all() []*etcdembed.Store {
	h.t.Helper()
	stores := make([]*etcdembed.Store, len(h.peers))
	var opening sync.WaitGroup
	for i := range stores {
		opening.Go(func() { stores[i] = h.open(i) })
	}
	opening.Wait()
	return stores
}

func (h *cluster) close(s *etcdembed.Store) {
	h.t.Helper()
	if err := s.Close(); err != nil {
		h.t.Error(err)
	}
}

// put claims a partition and puts a job, until that is known to be done.
func (h *cluster) put(s store.Store, name string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	r := store.Record{Ref: store.Ref{Key: carillon.Key{Namespace: "default", Name: name}}, Spec: []byte{}}
	for {
		terms, err := s.Leaser().Claim(ctx, "node", []int{3}, time.Hour)
		if err == nil {
			var sh store.Shard
			if sh, err = s.Shard(3, terms[0]); err == nil {
				err = sh.Apply(ctx, &store.Batch{Puts: []store.Record{r}})
			}
		}
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			h.t.Fatalf("put %s: %v", name, err)
		}
	}
}

// want checks which jobs a store shows.
func (h *cluster) want(s store.Store, want ...string) {
	h.t.Helper()
	sh, err := s.Shard(3, store.Term{})
	if err != nil {
		h.t.Fatal(err)
	}
	list, err := sh.List(h.t.Context(), store.ListQuery{Limit: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	var got []string
	for _, r := range list {
		got = append(got, r.Name)
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("jobs %q, want %q", got, want)
	}
}

// has waits until a member has a key itself, not only most of them.
func (h *cluster) has(i int, key string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{Endpoints: h.options(i).Store.Addresses[i : i+1], Logger: zap.NewNop()})
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	for {
		switch found, err := c.Get(ctx, key, clientv3.WithSerializable()); {
		case err == nil && len(found.Kvs) == 1:
			return
		case ctx.Err() != nil:
			h.t.Fatalf("member %d has no %s: %v", i, key, err)
		}
	}
}

// TestThreeMembers: what one stores the others read; each may go and come back.
func TestThreeMembers(t *testing.T) {
	h := newCluster(t, 3)
	stores := h.all()
	h.put(stores[0], "a")
	want := []string{"a"}
	for i := range stores {
		h.close(stores[i])
		other := stores[(i+1)%3]
		name := fmt.Sprint("without-", i)
		h.put(other, name)
		want = append(want, name)
		stores[i] = h.open(i)
		h.want(stores[i], want...)
	}
	for _, s := range stores {
		h.close(s)
	}
}

// TestAMemberLeavesInOrder: while one member after the other is stopped and started again, each of them the
// leader at some time, batches of the others wait at most.
func TestAMemberLeavesInOrder(t *testing.T) {
	h := newCluster(t, 3)
	stores := h.all()
	over := make(chan struct{})
	var writing sync.WaitGroup
	for i := range stores {
		leaving := stores[i]
		for p := range 3 {
			s := stores[(i+1)%3]
			terms, err := s.Leaser().Claim(t.Context(), "node", []int{p}, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			sh, err := s.Shard(p, terms[0])
			if err != nil {
				t.Fatal(err)
			}
			begun := make(chan struct{})
			writing.Go(func() {
				for n := 0; ; n++ {
					r := store.Record{Ref: store.Ref{Key: carillon.Key{Namespace: "default", Name: fmt.Sprint("job-", n%10)}}, Spec: []byte{}}
					if err := sh.Apply(t.Context(), &store.Batch{Puts: []store.Record{r}}); err != nil {
						t.Errorf("while %s leaves: batch %d of partition %d: %v", h.peers[i].Name, n, p, err)
					}
					if n == 10 {
						close(begun)
					}
					select {
					case <-over:
						if n >= 10 {
							return
						}
					default:
					}
				}
			})
			<-begun
		}
		h.close(leaving)
		stores[i] = h.open(i)
		close(over)
		writing.Wait()
		over = make(chan struct{})
	}
	for _, s := range stores {
		h.close(s)
	}
}

// TestOneOfThreeIsAway: without most of the others a store cannot be opened yet, and can when they come.
func TestOneOfThreeIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	h := newCluster(t, 3)
	if _, err := etcdembed.Open(t.Context(), h.options(0)); !errors.Is(err, store.ErrAway) {
		t.Fatalf("one of three: %v", err)
	}
	var two []*etcdembed.Store
	for _, i := range []int{1, 0} {
		two = append(two, h.open(i))
	}
	h.put(two[0], "a")
	h.want(two[1], "a")
	for _, s := range two {
		h.close(s)
	}
}

// TestAMemberIsReplaced: one whose folder is lost may not come back as the same; removed and added it catches
// up as a learner and becomes a full member.
func TestAMemberIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	h := newCluster(t, 3)
	stores := h.all()
	h.put(stores[0], "a")
	h.close(stores[2])
	if err := os.RemoveAll(h.options(2).Folder); err != nil {
		t.Fatal(err)
	}
	if _, err := etcdembed.Open(t.Context(), h.options(2)); err == nil || !strings.Contains(err.Error(), "cluster member remove n2") {
		t.Fatalf("a member without its folder: %v", err)
	}
	admin, err := etcdembed.NewAdmin(h.options(0))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Remove(t.Context(), "n9"); err == nil || !strings.Contains(err.Error(), "give a name") {
		t.Errorf("remove nobody: %v", err)
	}
	if _, err := admin.Remove(t.Context(), "n2"); err != nil {
		t.Fatal(err)
	}
	if _, err := etcdembed.Open(t.Context(), h.options(2)); err == nil || !strings.Contains(err.Error(), "cluster member add n2=") {
		t.Errorf("a member that was not added: %v", err)
	}
	if m, err := admin.Add(t.Context(), h.peers[2]); err != nil || !m.Learner {
		t.Fatalf("%+v, %v", m, err)
	}
	stores[2] = h.open(2)
	h.want(stores[2], "a")
	for full := false; !full; {
		members, err := admin.Members(t.Context())
		if err != nil || len(members) != 3 {
			t.Fatalf("%+v, %v", members, err)
		}
		full = !slices.ContainsFunc(members, func(m etcdembed.Member) bool { return m.Learner })
	}
	h.close(stores[0])
	h.put(stores[2], "b")
	h.want(stores[1], "a", "b")
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := admin.Snapshot(t.Context(), file); err != nil { // not from the one that is away
		t.Error(err)
	}
	h.close(stores[1])
	h.close(stores[2])
}

// TestMostMembersAreLost: two of three folders are gone. The members of them do not come back as empty ones with
// which the third would have a majority, and their error says what is to be done: what the third has is copied,
// but not without being told so, and becomes three members again.
func TestMostMembersAreLost(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	h := newCluster(t, 3)
	stores := h.all()
	h.put(stores[0], "a")
	h.has(2, "carillon/p/00003/jobs/default/a")
	for _, i := range []int{0, 1} {
		h.close(stores[i])
		if err := os.RemoveAll(h.options(i).Folder); err != nil {
			t.Fatal(err)
		}
	}
	_, err := etcdembed.Open(t.Context(), h.options(1))
	if err == nil || !strings.Contains(err.Error(), "--without-majority") {
		t.Fatalf("an empty member beside one that has no majority: %v", err)
	}
	admin, err := etcdembed.NewAdmin(h.options(0))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	members, err := admin.Members(t.Context())
	there := slices.DeleteFunc(slices.Clone(members), func(m etcdembed.Member) bool { return !m.Reached })
	if !errors.Is(err, etcdembed.ErrNoMajority) || len(members) != 3 || len(there) != 1 || there[0].Name != "n2" {
		t.Errorf("the members are %+v, %v; want three, of which n2 answers", members, err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := admin.Snapshot(t.Context(), file); !errors.Is(err, etcdembed.ErrNoMajority) {
		t.Errorf("a snapshot without a majority: %v", err)
	}
	if m, err := admin.SnapshotOfRest(t.Context(), file); err != nil || m.Name != "n2" {
		t.Fatalf("what is left: %+v, %v", m, err)
	}
	h.close(stores[2])
	if err := os.Rename(h.options(2).Folder, h.options(2).Folder+".old"); err != nil {
		t.Fatal(err)
	}
	for i := range h.peers {
		o := h.options(i)
		if err := etcdembed.Restore(&o, file); err != nil {
			t.Fatal(err)
		}
	}
	stores = h.all()
	h.put(stores[1], "b")
	for _, s := range stores {
		h.want(s, "a", "b")
	}
	for _, s := range stores {
		h.close(s)
	}
}

// TestSnapshot: a copy of all keys is written to a new file.
func TestSnapshot(t *testing.T) {
	h := newCluster(t, 1)
	s := h.open(0)
	defer h.close(s)
	h.put(s, "a")
	admin, err := etcdembed.NewAdmin(h.options(0))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := admin.Snapshot(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "carillon/p/00003/jobs/default/a") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if err := admin.Snapshot(t.Context(), file); err == nil {
		t.Error("a snapshot in the place of a file")
	}
}

// TestRestore: three members begin with what a snapshot of one has, and a member of which a restore was cut off
// has no folder. Nothing is written over.
func TestRestore(t *testing.T) {
	one := newCluster(t, 1)
	s := one.open(0)
	one.put(s, "a")
	admin, err := etcdembed.NewAdmin(one.options(0))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := errors.Join(admin.Snapshot(t.Context(), file), admin.Close()); err != nil {
		t.Fatal(err)
	}
	one.put(s, "b") // after the snapshot
	one.close(s)

	three := newCluster(t, 3)
	for i := range three.peers {
		o := three.options(i)
		if err := os.MkdirAll(filepath.Join(o.Folder+".restoring", "member"), 0o700); err != nil { // of an attempt
			t.Fatal(err)
		}
		if err := etcdembed.Restore(&o, file); err != nil {
			t.Fatal(err)
		}
		if err := etcdembed.Restore(&o, file); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("once more: %v", err)
		}
		if _, err := os.Stat(o.Folder + ".restoring"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what it was made in: %v", err)
		}
	}
	stores := three.all()
	for _, s := range stores {
		three.want(s, "a")
	}
	three.put(stores[1], "c")
	three.want(stores[2], "a", "c")
	for _, s := range stores {
		three.close(s)
	}
}

// TestAMemberOfBeforeARestoreIsRefused: one of three members missed the restore and starts with its old folder,
// under the same name and address. It does not get in, and what was restored stays.
func TestAMemberOfBeforeARestoreIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("members start ten times")
	}
	h := newCluster(t, 3)
	stores := h.all()
	h.put(stores[0], "a")
	admin, err := etcdembed.NewAdmin(h.options(0))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := errors.Join(admin.Snapshot(t.Context(), file), admin.Close()); err != nil {
		t.Fatal(err)
	}
	for i := range 10 { // its log is far ahead of the snapshot's
		h.put(stores[0], fmt.Sprint("after-", i))
	}
	for _, s := range stores {
		h.close(s)
	}
	for i := range 2 {
		o := h.options(i)
		if err := errors.Join(os.RemoveAll(o.Folder), etcdembed.Restore(&o, file)); err != nil {
			t.Fatal(err)
		}
	}
	var opening sync.WaitGroup
	for i := range 2 {
		opening.Go(func() { stores[i] = h.open(i) })
	}
	opening.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if s, err := etcdembed.Open(ctx, h.options(2)); err == nil {
		h.close(s)
		t.Error("a member of before the restore is one of them")
	}
	h.put(stores[1], "b")
	h.want(stores[0], "a", "b")
	h.close(stores[0])
	h.close(stores[1])
}

// TestRestoreOfDamage: a file that is cut, changed, or something else is refused, and leaves no folder.
func TestRestoreOfDamage(t *testing.T) {
	h := newCluster(t, 1)
	s := h.open(0)
	h.put(s, "a")
	admin, err := etcdembed.NewAdmin(h.options(0))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := errors.Join(admin.Snapshot(t.Context(), file), admin.Close()); err != nil {
		t.Fatal(err)
	}
	h.close(s)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(whole)
	changed[len(changed)/2] ^= 1
	for what, text := range map[string][]byte{"cut": whole[:len(whole)-1000], "changed": changed, "empty": nil,
		"something else": []byte(strings.Repeat("# README\n", 5000))} {
		o := h.options(0)
		o.Folder = filepath.Join(t.TempDir(), "new")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := etcdembed.Restore(&o, file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", what, err)
		}
		for _, folder := range []string{o.Folder, o.Folder + ".restoring"} {
			if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %s: %v", what, folder, err)
			}
		}
	}
	o := h.options(0)
	o.Folder = filepath.Join(t.TempDir(), "new")
	if err := etcdembed.Restore(&o, filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestTLS: members and nodes use certificates if the URL names them.
func TestTLS(t *testing.T) {
	certificate, key, _ := realserver.Authority(t)
	port := realserver.PortPair(t)
	o, err := etcdembed.ParseURL(fmt.Sprintf("etcd-embed:%s?member=a&peers=a=127.0.0.1:%d&sslrootcert=%s&sslcert=%s&sslkey=%s",
		t.TempDir(), port+1, certificate, certificate, key))
	if err != nil {
		t.Fatal(err)
	}
	s, err := etcdembed.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	h := &cluster{t: t}
	h.put(s, "a")
	h.want(s, "a")
	plain := o.Store
	plain.TLS, plain.Timeout = nil, 200*time.Millisecond
	if _, err := etcd.Open(t.Context(), plain); err == nil {
		t.Error("it opens without TLS")
	}
	h.close(s)
}

// TestSuite runs the conformance suite on a member of this version of etcd; package etcd runs it on the one
// that is installed. The stores share the member and have prefixes of their own.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("package etcd has the suite for -short")
	}
	h := newCluster(t, 1)
	s := h.open(0)
	defer h.close(s)
	var mu sync.Mutex
	made, where := 0, map[store.Store]etcd.Options{}
	open := func(t testing.TB, o etcd.Options) store.Store {
		s, err := etcd.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		mu.Lock()
		defer mu.Unlock()
		where[s] = o
		return s
	}
	storetest.RunOptions(t, storetest.Options{
		Open: func(t testing.TB) store.Store {
			mu.Lock()
			made++
			o := h.options(0).Store
			o.Prefix, o.Timeout = fmt.Sprint("test-", made), 30*time.Second // the disk may be a busy one
			mu.Unlock()
			return open(t, o)
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			o := where[s]
			mu.Unlock()
			return open(t, o)
		},
		Seeds: 1,
	})
}
