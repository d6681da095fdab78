package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/redis"
)

// A server that was restarted may have lost what it acknowledged: who owned something before does not write
// to it.
func TestARestartDeposes(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, held := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	r.Down(t)
	r.Up(t)
	if got := servertest.Names(t, sh); !slices.Equal(got, []string{"a"}) { // a read tries again until it is connected
		t.Fatalf("after the restart there are %q", got)
	}
	// Each of the connections may find out only now that it is gone: but for Apply, the store tries the next
	// one.
	if lost, err := s.Leaser().Renew(t.Context(), "node", []store.Holding{held},
		servertest.Lease); err != nil || len(lost) != 1 {
		t.Errorf("Renew after the restart: lost %v, %v", lost, err)
	}
	wantFenced(t, sh, servertest.Batch("b"))
	again := servertest.Applied(t, s, 3, servertest.Batch("c"))
	servertest.WantNames(t, again, "a", "c")
}

// A promoted replica has the term of the old owner, epoch and nonce alike, and refuses it all the same.
func TestAFailoverDeposes(t *testing.T) {
	primary := realserver.StartRedis(t)
	replica := realserver.StartRedis(t, fmt.Sprint("replicaof=127.0.0.1 ", primary.Port))
	o := fresh(primary)
	before := open(t, o)
	sh, held := servertest.Own(t, before, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	followed(t, primary)
	o.Addresses = []string{replica.Address()}
	if _, err := redis.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is a replica") {
		t.Errorf("open a replica: %v", err)
	}
	replica.Do(t, "REPLICAOF", "NO", "ONE")
	after := open(t, o)
	old := servertest.Shard(t, after, 3, held.Term)
	servertest.WantNames(t, old, "a")
	servertest.Want(t, "the old term on the new primary", old, servertest.Batch("b"), store.Fenced)
	again, _ := servertest.Own(t, after, 3)
	servertest.Want(t, "a new term on the new primary", again, servertest.Batch("c"), store.Applied)
	servertest.WantNames(t, again, "a", "c")
}

// followed waits until the replica of a primary has all that it was told.
func followed(t *testing.T, primary *realserver.Redis) {
	t.Helper()
	servertest.Until(t, func() error {
		if n := primary.Do(t, "WAIT", "1", "1000"); n != "1" {
			return fmt.Errorf("%s replicas follow", n)
		}
		return nil
	})
}

// A primary that has become a replica keeps its connections, also those through an address that leads to the
// new primary by now.
func TestAPrimaryBecomesAReplica(t *testing.T) {
	first, second := realserver.StartRedis(t), realserver.StartRedis(t)
	second.Do(t, "REPLICAOF", "127.0.0.1", fmt.Sprint(first.Port))
	front := newFront(t, first.Address())
	o := fresh()
	o.Addresses = []string{front.address}
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	followed(t, first)
	second.Do(t, "REPLICAOF", "NO", "ONE")
	first.Do(t, "REPLICAOF", "127.0.0.1", fmt.Sprint(second.Port))
	front.to.Store(second.Address())
	wantFenced(t, sh, servertest.Batch("b"))
	servertest.WantNames(t, servertest.Applied(t, s, 3, servertest.Batch("c")), "a", "c")
}

// front is an address that leads to one server or another.
type front struct {
	address string
	to      atomic.Value // string
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{address: l.Addr().String()}
	f.to.Store(to)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = l.Close() })
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.pass(in) })
		}
	})
	return f
}

// pass connects one who has come.
func (f *front) pass(in net.Conn) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", f.to.Load().(string))
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
		close(done)
	}()
	_, _ = io.Copy(in, out)
	_ = in.Close()
	<-done
}

// Sentinels say who the primary is, also when another one has taken its place.
func TestSentinel(t *testing.T) {
	primary := realserver.StartRedis(t)
	replica := realserver.StartRedis(t, fmt.Sprint("replicaof=127.0.0.1 ", primary.Port))
	followed(t, primary)
	sentinel := realserver.StartSentinel(t, "main", primary)
	servertest.Until(t, func() error {
		if known := sentinel.Do(t, "SENTINEL", "REPLICAS", "main"); !strings.Contains(known,
			fmt.Sprint(replica.Port)) {
			return errors.New("the sentinel does not know the replica")
		}
		return nil
	})
	o := fresh(sentinel)
	o.Sentinel = "main"
	s := open(t, o)
	sh, held := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	followed(t, primary)
	primary.Crash(t)
	wantFenced(t, sh, servertest.Batch("b"))
	if _, now := servertest.Own(t, s, 3); now.Term.Epoch <= held.Term.Epoch {
		t.Errorf("epoch %d comes after %d", now.Term.Epoch, held.Term.Epoch)
	}
	servertest.WantNames(t, servertest.Applied(t, s, 3, servertest.Batch("c")), "a", "c")
}

// A term that is given in an older copy of the data is not one that was given before.
func TestEpochsAreOfThisTime(t *testing.T) {
	r := realserver.StartRedis(t)
	o := fresh(r)
	s := open(t, o)
	began := time.Now()
	r.Do(t, "HSET", "{"+o.Prefix+":3}:owner", "epoch", "7")
	if _, held := servertest.Own(t, s, 3); held.Term.Epoch < uint64(began.Unix()) {
		t.Errorf("epoch %d is not of this time", held.Term.Epoch)
	}
}

// A server whose clock was set back does not have a dead node live for as much longer.
func TestTheClockIsSetBack(t *testing.T) {
	r := realserver.StartRedis(t)
	o := fresh(r)
	s := open(t, o)
	l := s.Leaser()
	claim := func(node string) store.Term {
		terms, err := l.Claim(t.Context(), node, []int{3}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return terms[0]
	}
	join := func(nonce uint64) error {
		return l.Join(t.Context(), store.Member{ID: "dead", Nonce: nonce}, time.Minute)
	}
	if err := join(1); err != nil {
		t.Fatal(err)
	}
	if claim("dead").IsZero() || !claim("node").IsZero() || !errors.Is(join(2), store.ErrTaken) {
		t.Fatal("it does not live")
	}
	// As it is after the clock was set back by an hour.
	later := fmt.Sprint(time.Now().Add(time.Hour + time.Minute).UnixMicro())
	r.Do(t, "HSET", "{"+o.Prefix+":3}:owner", "until", later)
	r.Do(t, "HSET", "{"+o.Prefix+"}:members", "dead", later+" 60000000 1 {}")
	if m, err := l.Members(t.Context()); err != nil || len(m) != 0 {
		t.Errorf("members: %v, %v", m, err)
	}
	r.Do(t, "HSET", "{"+o.Prefix+"}:members", "dead", later+" 60000000 1 {}")
	if err := join(2); err != nil {
		t.Errorf("a successor: %v", err)
	}
	if claim("node").IsZero() {
		t.Error("its partition is not free")
	}
}

// A store that is gone, or was made again, is not the one that was opened.
func TestAnotherStoreInItsPlace(t *testing.T) {
	r := realserver.StartRedis(t)
	o := fresh(r)
	var told []string
	o.Events = store.Events{
		Failed:    func(error) { told = append(told, "failed") },
		Recovered: func() { told = append(told, "recovered") },
	}
	s := open(t, o)
	sh, held := servertest.Own(t, s, 3)
	var other *redis.Store
	for _, change := range []func(){
		func() { r.Do(t, "FLUSHALL") },
		func() { o.Partitions, o.Events = 8, store.Events{}; other = open(t, o) },
	} {
		change()
		l := s.Leaser()
		for name, join := range map[string]func(context.Context, store.Member,
			time.Duration) error{"join": l.Join, "retire": l.Retire} {
			if err := join(t.Context(), store.Member{ID: "node", Nonce: 1, Capacity: 1},
				servertest.Lease); !errors.Is(err, redis.ErrReplaced) {
				t.Errorf("%s another store's members: %v", name, err)
			}
		}
		if _, err := s.Leaser().Claim(t.Context(), "node", []int{3}, servertest.Lease); !errors.Is(err, redis.ErrReplaced) {
			t.Errorf("a claim of another store's partition: %v", err)
		}
		if lost, err := l.Renew(t.Context(), "node", []store.Holding{held}, servertest.Lease); err != nil || len(lost) != 1 {
			t.Errorf("renewed in another store: lost %v, %v", lost, err)
		}
		servertest.Want(t, "a write to another store", sh, servertest.Batch("a"), store.Fenced)
	}
	if !slices.Equal(told, []string{"failed"}) { // that it can be asked does not make it whole
		t.Errorf("told %q", told)
	}
	if m, err := other.Leaser().Members(t.Context()); err != nil || len(m) != 0 {
		t.Errorf("the members of the other store: %v, %v", m, err)
	}
	meta := s.Meta()
	r.Do(t, "HSET", "{"+o.Prefix+"}:meta", "partitions", strconv.Itoa(meta.Partitions), "key_6",
		string(meta.MACKey))
	if _, err := s.Leaser().Claim(t.Context(), "node", []int{3}, servertest.Lease); err != nil ||
		!slices.Equal(told, []string{"failed", "recovered"}) {
		t.Errorf("the store is back: %v, told %q", err, told)
	}
}

// Servers on which a store would lose jobs, or that are not one store, are refused.
func TestServersRefused(t *testing.T) {
	evicting := realserver.StartRedis(t, "maxmemory-policy=allkeys-lru", "maxmemory=1gb")
	if _, err := redis.Open(t.Context(), fresh(evicting)); err == nil ||
		!strings.Contains(err.Error(), "set noeviction") {
		t.Errorf("a server that throws jobs away: %v", err)
	}
	if _, err := redis.Open(t.Context(), fresh(evicting, evicting)); err == nil ||
		!strings.Contains(err.Error(), "no Redis Cluster") {
		t.Errorf("two servers that are no cluster: %v", err)
	}
}

// A slot that is moved to another server, key by key, takes its partition along: while it is on two of them
// nothing is written, and the owner claims again where it came to.
func TestASlotMoves(t *testing.T) {
	nodes := realserver.StartRedisCluster(t, 3)
	o := fresh(nodes...)
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	b := servertest.Batch("a")
	b.MetaRecords = []store.MetaRecord{{Kind: 1, Key: "k", Value: []byte("v")}}
	servertest.Want(t, "before", sh, b, store.Applied)
	slot := nodes[0].Do(t, "CLUSTER", "KEYSLOT", "{"+o.Prefix+":3}:owner")
	from := slices.IndexFunc(nodes, func(r *realserver.Redis) bool {
		return r.Do(t, "CLUSTER", "COUNTKEYSINSLOT", slot) != "0"
	})
	source, target := nodes[from], nodes[(from+1)%len(nodes)]
	ids := map[*realserver.Redis]string{source: source.Do(t, "CLUSTER", "MYID"),
		target: target.Do(t, "CLUSTER", "MYID")}
	target.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
	source.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
	move := func(names ...string) {
		for _, name := range names {
			source.Do(t, "MIGRATE", "127.0.0.1", fmt.Sprint(target.Port), "{"+o.Prefix+":3}:"+name, "0", "5000")
		}
	}
	move("state", "owner", "due")
	servertest.Want(t, "on two servers", sh, servertest.Batch("b"), store.NotApplied)
	// it is tried again for as long as it may be
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := sh.List(short, store.ListQuery{Limit: 10}); err == nil {
		t.Error("half of a partition is read as if it were all")
	}
	move("spec", "jobs", "small", "smallkeys")
	for _, r := range []*realserver.Redis{target, source, nodes[(from+2)%len(nodes)]} {
		r.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])
	}
	wantFenced(t, sh, servertest.Batch("b"))
	servertest.WantNames(t, servertest.Applied(t, s, 3, servertest.Batch("c")), "a", "c")
}

// Where one server sends calls on to another, which sends them back, as after a move of a slot that was
// broken off, they end.
func TestServersThatDoNotAgree(t *testing.T) {
	nodes := realserver.StartRedisCluster(t, 3)
	o := fresh(nodes...)
	s := open(t, o)
	slot := nodes[0].Do(t, "CLUSTER", "KEYSLOT", "{"+o.Prefix+":3}:owner")
	servertest.Own(t, s, 3)
	has := slices.IndexFunc(nodes, func(r *realserver.Redis) bool {
		return r.Do(t, "CLUSTER", "COUNTKEYSINSLOT", slot) != "0"
	})
	nodes[has].Do(t, "DEL", "{"+o.Prefix+":3}:owner") // what has been moved away
	nodes[has].Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodes[(has+1)%len(nodes)].Do(t, "CLUSTER", "MYID"))
	servertest.Want(t, "a write", servertest.Shard(t, s, 3, store.Term{Epoch: 1, Nonce: 1}), servertest.Batch("a"), store.NotApplied)
	if _, err := s.Leaser().Claim(t.Context(), "node", []int{3}, servertest.Lease); err == nil {
		t.Error("the partition is claimed of nobody")
	}
}

// What has run, and is not kept any more, leaves nothing behind, however much it was.
func TestTwentyThousandRunsLeaveNothing(t *testing.T) {
	const runs, size = 20_000, 500
	r := realserver.StartRedis(t, "appendfsync=no")
	s := open(t, fresh(r))
	sh, _ := servertest.Own(t, s, 3)
	steps(t, sh, runs, size, func(b *store.Batch, i int) { b.Puts = append(b.Puts, servertest.Reminder(i)) })
	steps(t, sh, runs, size, func(b *store.Batch, i int) {
		run := servertest.EndOf(i)
		b.Deletes, b.Runs = append(b.Deletes, store.Ref{Key: run.Key}), append(b.Runs, run)
	})
	full := r.Do(t, "INFO", "memory")
	steps(t, sh, runs, size, func(b *store.Batch, i int) {
		b.Expire = &store.Expire{Before: servertest.EndOf(i).Expires, Most: runs, Limit: size}
	})
	if n := r.Do(t, "DBSIZE"); n != "2" {
		t.Errorf("%s keys are left, want owner and meta: %s", n, r.Do(t, "KEYS", "*"))
	}
	t.Logf("with all runs:\n%s\nafterwards:\n%s", full, r.Do(t, "INFO", "memory"))
}

// steps applies n changes, so many at once.
func steps(t *testing.T, sh store.Shard, n, size int, change func(b *store.Batch, i int)) {
	t.Helper()
	for i := 0; i < n; i += size {
		var b store.Batch
		for k := range size {
			change(&b, i+k)
		}
		servertest.Want(t, "a step", sh, &b, store.Applied)
	}
}
