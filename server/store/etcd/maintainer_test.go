package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/etcd"
)

// smallQuota is the quota of an etcd that is soon full.
const smallQuota = 32 << 20

// hurried is a store on an etcd of a small quota, whose maintainer acts soon.
func hurried(t *testing.T, m *realserver.Etcd) *etcd.Store {
	t.Helper()
	o := fresh(m)
	o.Quota, o.Log = smallQuota, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	return open(t, etcd.Hurried(o, 100*time.Millisecond, 300*time.Millisecond))
}

func startSmallEtcd(t *testing.T) *realserver.Etcd {
	t.Helper()
	return realserver.StartEtcd(t, append(realserver.VolatileEtcd(), fmt.Sprint("quota-backend-bytes=", smallQuota))...)
}

// large is a batch of some jobs of 10 kB.
func large(n, count int) *store.Batch {
	var b store.Batch
	for i := range count {
		r := servertest.Job(fmt.Sprintf("large-%06d-%d", n, i))
		r.Spec = bytes.Repeat([]byte{byte(i)}, 10_000)
		b.Puts = append(b.Puts, r)
	}
	return &b
}

// TestAFullStoreTakesNoNewJobs: before etcd refuses everything new jobs are refused; what is there is written
// and deleted, and then there is room again, without an operator.
func TestAFullStoreTakesNoNewJobs(t *testing.T) {
	s := hurried(t, startSmallEtcd(t))
	sh, _ := servertest.Own(t, s, 3)
	n := 0
	for ; ; n++ {
		if err := s.Room(); errors.Is(err, store.ErrFull) {
			break
		} else if err != nil || n > smallQuota/200_000 {
			t.Fatalf("batch %d: %v", n, err)
		}
		servertest.Want(t, "a put", sh, large(n, 20), store.Applied)
	}
	for i := range 5 {
		servertest.Want(t, "a tick", sh, large(i, 20), store.Applied)
	}
	for i := range n {
		var b store.Batch
		for _, r := range large(i, 20).Puts {
			b.Deletes = append(b.Deletes, r.Ref)
		}
		servertest.Want(t, "a delete", sh, &b, store.Applied)
	}
	servertest.Until(t, s.Room)
	servertest.Want(t, "a put", sh, large(0, 20), store.Applied)
}

// TestTheAlarmIsTakenBack: others have filled etcd up to its quota, so that it refuses all writes; when they
// have made room it is defragmented, and takes writes again.
func TestTheAlarmIsTakenBack(t *testing.T) {
	m := startSmallEtcd(t)
	s := hurried(t, m)
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Address()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for i := 0; err == nil; i++ {
		_, err = c.Put(t.Context(), fmt.Sprint("others/", i), string(bytes.Repeat([]byte("x"), 500_000)))
	}
	servertest.Until(t, func() error {
		if err := sh.Apply(t.Context(), servertest.Batch("b")); !errors.Is(err, store.ErrFull) {
			return fmt.Errorf("a write to a full etcd: %w", err)
		}
		return nil
	})
	if _, err := c.Delete(t.Context(), "others/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, func() error { return sh.Apply(t.Context(), servertest.Batch("c")) })
	servertest.WantNames(t, sh, "a", "c")
}

// TestRecordsInMemoryAreBounded: a node takes no more jobs than its memory is to hold.
func TestRecordsInMemoryAreBounded(t *testing.T) {
	o := fresh(realserver.StartEtcd(t, realserver.VolatileEtcd()...))
	o.Records = 10
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	for i := range 10 {
		servertest.Want(t, "a job", sh, servertest.Batch(fmt.Sprint(i)), store.Applied)
	}
	if err := s.Room(); !errors.Is(err, store.ErrFull) {
		t.Fatalf("there is room for one job more: %v", err)
	}
	servertest.Want(t, "a tick", sh, servertest.Batch("3"), store.Applied)
	servertest.Want(t, "a delete", sh, &store.Batch{Deletes: []store.Ref{servertest.Job("4").Ref}}, store.Applied)
	servertest.Until(t, s.Room)
}

// TestWhatOthersOwnIsNotKept: a partition that another process owns is in memory only while it is read, and
// one that this process owns for as long.
func TestWhatOthersOwnIsNotKept(t *testing.T) {
	m := realserver.StartEtcd(t, realserver.VolatileEtcd()...)
	o := etcd.Hurried(fresh(m), 20*time.Millisecond, time.Second)
	owner, reader := open(t, o), open(t, o)
	sh, held := servertest.Own(t, owner, 3)
	servertest.Want(t, "put", sh, servertest.Batch("a"), store.Applied)
	servertest.WantNames(t, servertest.Shard(t, reader, 3, store.Term{}), "a")
	servertest.Until(t, func() error {
		if reader.InMemory(3) {
			return errors.New("the reader keeps the partition")
		}
		return nil
	})
	if !owner.InMemory(3) {
		t.Error("the owner does not keep the partition")
	}
	if err := owner.Leaser().Release(t.Context(), "node", []store.Holding{held}); err != nil {
		t.Fatal(err)
	}
	if owner.InMemory(3) {
		t.Error("a partition that was released is kept")
	}
	servertest.WantNames(t, sh, "a")
}

// TestMaintenanceIsLeftToOthers: with NoMaintenance a process watches the room, and takes no part in the rest.
func TestMaintenanceIsLeftToOthers(t *testing.T) {
	o := etcd.Hurried(fresh(realserver.StartEtcd(t, realserver.VolatileEtcd()...)), 10*time.Millisecond, time.Millisecond)
	o.NoMaintenance = true
	s := open(t, o)
	servertest.WantNames(t, servertest.Shard(t, s, 3, store.Term{}))
	servertest.Until(t, func() error {
		if s.InMemory(3) {
			return errors.New("it has not looked twice yet")
		}
		return nil
	})
	if keys, err := s.Keys(t.Context(), "maintainer"); err != nil || len(keys) > 0 {
		t.Errorf("it maintains etcd: %v, %v", keys, err)
	}
	o.NoMaintenance = false
	other := open(t, o)
	servertest.Until(t, func() error {
		if keys, err := other.Keys(t.Context(), "maintainer"); err != nil || len(keys) == 0 {
			return fmt.Errorf("nobody maintains etcd: %w", err)
		}
		return nil
	})
}
