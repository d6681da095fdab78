package object_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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
)

var (
	seed  = flag.Uint64("seed", 0, "what is drawn in TestHistories; 0 = something else each time")
	steps = flag.Int("steps", 300, "what each process does in TestHistories")
)

const bucketName = "carillon-test"

// bucketOf is a bucket of a server, as clients have it.
func bucketOf(t testing.TB, server *realserver.S3) bucket.Bucket {
	t.Helper()
	b, err := s3.New(t.Context(), s3.Options{Bucket: bucketName, Region: "us-east-1",
		Endpoint: server.Endpoint(), PathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.Key, server.Secret, "")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// process is one of those that share a store.
type process struct {
	t      *testing.T
	name   string
	opt    object.Options
	bucket *buckettest.Shaky
	store  *object.Store
	dice   *rand.Rand
	holds  map[int]store.Term
	reads  sync.WaitGroup // that go on beside what else the process does
	made   int
	seen   *outcomes
}

// outcomes are the jobs that were put, by partition, and what is known of each.
type outcomes struct {
	sync.Mutex
	of map[int]map[string]store.Outcome
}

func (o *outcomes) note(partition int, names []string, outcome store.Outcome) {
	o.Lock()
	defer o.Unlock()
	for _, name := range names {
		o.of[partition][name] = outcome
	}
}

// applied are the jobs of a partition of which it is known that they were put.
func (o *outcomes) applied(partition int) map[string]bool {
	o.Lock()
	defer o.Unlock()
	out := map[string]bool{}
	for name, outcome := range o.of[partition] {
		if outcome == store.Applied {
			out[name] = true
		}
	}
	return out
}

// open opens the process's store.
func (p *process) open() {
	p.t.Helper()
	servertest.Until(p.t, func() (err error) {
		p.store, err = object.Open(p.t.Context(), p.opt)
		return err
	})
	if p.dice.IntN(2) == 0 {
		p.store.Spare(1) // what it writes and reads is in memory for a moment only
	}
	p.holds = map[int]store.Term{}
}

// step does one thing.
func (p *process) step() {
	const partitions = 3
	l, number := p.store.Leaser(), p.dice.IntN(partitions)
	switch p.dice.IntN(40) {
	case 0:
		for partition, term := range p.holds {
			held := []store.Holding{{Partition: partition, Term: term}}
			if err := l.Release(p.t.Context(), p.name, held); err == nil {
				delete(p.holds, partition)
			}
			break
		}
	case 1: // it is killed, and starts again
		if err := p.store.Close(); err != nil {
			p.t.Error(err)
		}
		p.open()
	case 2, 3, 4, 5, 6, 7, 8:
		ttl := time.Duration(20+p.dice.IntN(200)) * time.Millisecond
		terms, err := l.Claim(p.t.Context(), p.name, []int{number}, ttl)
		if err == nil && !terms[0].IsZero() {
			p.holds[number] = terms[0]
		}
	case 9, 10, 11, 12, 13:
		for partition, term := range p.holds {
			ttl := time.Duration(20+p.dice.IntN(200)) * time.Millisecond
			lost, err := l.Renew(p.t.Context(), p.name, []store.Holding{{Partition: partition, Term: term}}, ttl)
			if err == nil && len(lost) > 0 {
				delete(p.holds, partition)
			}
			break
		}
	case 14, 15, 16, 17, 18:
		p.look(number)
	default:
		p.put()
	}
}

// look checks that a read sees what was acknowledged before. It goes on beside what the process does next.
func (p *process) look(partition int) {
	var term store.Term
	if p.dice.IntN(2) == 0 {
		term = p.holds[partition]
	}
	applied := p.seen.applied(partition)
	sh := servertest.Shard(p.t, p.store, partition, term)
	p.reads.Go(func() {
		list, err := sh.List(p.t.Context(), store.ListQuery{Limit: 1 << 20})
		if err != nil {
			return
		}
		for _, r := range list {
			delete(applied, r.Name)
		}
		for name := range applied {
			p.t.Errorf("%s does not see %s, which was put into partition %d", p.name, name, partition)
		}
	})
}

// put puts some jobs into some of the partitions that it has claimed.
func (p *process) put() {
	var writes []store.Write
	names := map[int][]string{}
	for partition, term := range p.holds {
		if p.dice.IntN(2) == 0 {
			continue
		}
		for range 1 + p.dice.IntN(3) {
			p.made++
			names[partition] = append(names[partition], fmt.Sprintf("%s-%05d", p.name, p.made))
		}
		writes = append(writes, store.Write{Shard: servertest.Shard(p.t, p.store, partition, term),
			Batch: servertest.Batch(names[partition]...)})
	}
	err := p.store.ApplyGroup(p.t.Context(), writes)
	outcome := store.OutcomeOf(err)
	for partition, list := range names {
		p.seen.note(partition, list, outcome)
		if outcome != store.Applied {
			delete(p.holds, partition)
		}
	}
}

// TestAnOwnerComesBack: an owner that comes back goes on in its log where it had ended, and sees what another
// one has written meanwhile, also if it had read the partition before.
func TestAnOwnerComesBack(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	o := object.Options{Bucket: bucketOf(t, server), Prefix: "comes-back", Every: time.Millisecond}
	a, b := servertest.Opened(t, o, object.Open), servertest.Opened(t, o, object.Open)
	var want []string
	for i := range 6 {
		s := a
		if i%2 == 1 {
			s = b
		}
		sh, held := servertest.Own(t, s, 3)
		servertest.WantNames(t, sh, want...)
		name := fmt.Sprint("job-", i)
		servertest.Want(t, name, sh, servertest.Batch(name), store.Applied)
		want = append(want, name)
		if err := s.Leaser().Release(t.Context(), "node", []store.Holding{held}); err != nil {
			t.Fatal(err)
		}
		servertest.WantNames(t, servertest.Shard(t, s, 3, store.Term{}), want...)
	}
}

// TestAReaderComesBackLate: segments that a reader has seen were deleted since, and it finds the end of the
// log all the same.
func TestAReaderComesBackLate(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	b := bucketOf(t, server)
	o := object.Options{Bucket: b, Prefix: "late", Every: time.Millisecond}
	owner := servertest.Opened(t, object.Hurried(o, 3, 50*time.Millisecond), object.Open)
	reader := servertest.Opened(t, o, object.Open)
	sh, _ := servertest.Own(t, owner, 3)
	var want []string
	put := func() {
		want = append(want, fmt.Sprintf("job-%03d", len(want)))
		servertest.Want(t, "put", sh, servertest.Batch(want[len(want)-1]), store.Applied)
	}
	put()
	servertest.WantNames(t, servertest.Shard(t, reader, 3, store.Term{}), want...)
	logs, err := b.List(t.Context(), "late/logs/", "", 1)
	if err != nil || len(logs.Entries) != 1 {
		t.Fatalf("%v, %v", logs, err)
	}
	servertest.Until(t, func() error {
		put()
		if _, err := b.Get(t.Context(), logs.Entries[0].Name, ""); !errors.Is(err, bucket.ErrAbsent) {
			return fmt.Errorf("the first segment is still there: %w", err)
		}
		return nil
	})
	put()
	servertest.WantNames(t, servertest.Shard(t, reader, 3, store.Term{}), want...)
}

// TestALeaseEndsThoughItsNodeLives: heartbeats extend what the node renews, and nothing else.
func TestALeaseEndsThoughItsNodeLives(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	o := object.Options{Bucket: bucketOf(t, server), Prefix: "ends", Every: time.Millisecond}
	a, b := servertest.Opened(t, o, object.Open), servertest.Opened(t, o, object.Open)
	const ttl = 300 * time.Millisecond
	if _, err := a.Leaser().Claim(t.Context(), "a", []int{3}, ttl); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, func() error {
		if err := a.Leaser().Join(t.Context(), store.Member{ID: "a", Capacity: 1, Nonce: 1}, ttl); err != nil {
			t.Fatal(err)
		}
		terms, err := b.Leaser().Claim(t.Context(), "b", []int{3}, ttl)
		if err == nil && terms[0].IsZero() {
			err = errors.New("the lease of a node that does not renew it goes on")
		}
		return err
	})
}

// TestHeartbeatsRenew: a renewal after a heartbeat finds its lease extended, and asks for nothing.
func TestHeartbeatsRenew(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	var made atomic.Int64
	b := &counted{Bucket: bucketOf(t, server), made: &made}
	s := servertest.Opened(t, object.Options{Bucket: b, Prefix: "renew", Every: time.Millisecond}, object.Open)
	_, held := servertest.Own(t, s, 3)
	if err := s.Leaser().Join(t.Context(), store.Member{ID: "node", Capacity: 1, Nonce: 1}, servertest.Lease); err != nil {
		t.Fatal(err)
	}
	before := made.Load()
	lost, err := s.Leaser().Renew(t.Context(), "node", []store.Holding{held}, servertest.Lease)
	if err != nil || len(lost) > 0 {
		t.Errorf("lost %v, %v", lost, err)
	}
	if n := made.Load() - before; n != 0 {
		t.Errorf("a renewal after a heartbeat makes %d requests", n)
	}
}

// counted is a bucket that counts the requests that change or read the root.
type counted struct {
	bucket.Bucket
	made *atomic.Int64
}

func (c *counted) Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error) {
	c.made.Add(1)
	return c.Bucket.Get(ctx, name, known)
}

func (c *counted) Replace(ctx context.Context, name string, data []byte,
	was bucket.Version) (bucket.Version, error) {
	c.made.Add(1)
	return c.Bucket.Replace(ctx, name, data, was)
}

// TestCloseWithABatchOnItsWay: nobody waits for a partition any more whose batch cannot be settled, also of
// another partition, and the store ends.
func TestCloseWithABatchOnItsWay(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	o := object.Options{Bucket: bucketOf(t, server), Prefix: "close", Every: time.Millisecond,
		Timeout: 3 * time.Second}
	s, err := object.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	next, _ := servertest.Own(t, s, 4)
	servertest.Want(t, "before", next, servertest.Batch("a"), store.Applied)
	server.Freeze(t)
	defer server.Thaw(t)
	servertest.Want(t, "halted", sh, servertest.Batch("b"), store.Unknown)
	servertest.Want(t, "behind a segment without an answer", next, servertest.Batch("b"), store.Unknown)
	waits := make(chan error)
	go func() { waits <- sh.Apply(context.WithoutCancel(t.Context()), servertest.Batch("c")) }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, store.ErrClosed) {
		t.Errorf("a batch that waited: %v", err)
	}
}

// TestHistories: several processes take partitions from each other, are killed, write snapshots and delete
// what nobody needs, while requests are lost, done late or twice. What was acknowledged is there at the end,
// what was refused is not, and of the rest each group is there as a whole or not at all.
func TestHistories(t *testing.T) {
	server, rounds := realserver.StartS3(t, bucketName), 5
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		from := *seed
		if from == 0 {
			from = rand.Uint64()
		}
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Logf("again: go test ./server/store/object -run TestHistories -seed %d -steps %d", from, *steps)
			history(t, server, fmt.Sprintf("test-%x-%d", from, round), from)
		})
	}
}

func history(t *testing.T, server *realserver.S3, prefix string, from uint64) {
	seen := &outcomes{of: map[int]map[string]store.Outcome{0: {}, 1: {}, 2: {}}}
	var all []*process
	for i := range 3 {
		b := buckettest.NewShaky(bucketOf(t, server), rand.New(rand.NewPCG(from, uint64(i))))
		p := &process{t: t, name: fmt.Sprint("node-", i), bucket: b, seen: seen,
			dice: rand.New(rand.NewPCG(from, uint64(10+i))),
			opt: object.Hurried(object.Options{Bucket: b, Prefix: prefix, Every: time.Millisecond, Partitions: 3,
				Timeout: time.Second}, 5, 300*time.Millisecond)}
		p.open()
		all = append(all, p)
	}
	var working sync.WaitGroup
	for _, p := range all {
		working.Go(func() {
			for range *steps {
				p.step()
			}
		})
	}
	working.Wait()
	for _, p := range all {
		p.reads.Wait()
		p.bucket.Calm()
		if err := p.store.Close(); err != nil {
			t.Error(err)
		}
	}
	s := servertest.Opened(t, object.Options{Bucket: bucketOf(t, server), Prefix: prefix}, object.Open)
	counts := map[store.Outcome]int{}
	for partition, names := range seen.of {
		there := servertest.Names(t, servertest.Shard(t, s, partition, store.Term{}))
		for name, outcome := range names {
			counts[outcome]++
			is := slices.Contains(there, name)
			switch {
			case outcome == store.Applied && !is:
				t.Errorf("partition %d has lost %s", partition, name)
			case (outcome == store.NotApplied || outcome == store.Fenced) && is:
				t.Errorf("partition %d has %s, which was refused (%d)", partition, name, outcome)
			}
		}
	}
	t.Logf("applied %d, refused %d, fenced %d, unknown %d", counts[store.Applied], counts[store.NotApplied],
		counts[store.Fenced], counts[store.Unknown])
	if counts[store.Applied] < *steps/20 {
		t.Errorf("only %d jobs were applied", counts[store.Applied])
	}
}

// TestAReadWithAnOldRoot: a call has asked for the root, and has its answer when the log of its process was
// sealed for another partition's sake, and the owner has gone on in another one. It does not take what was
// acknowledged since out of the owner's memory.
func TestAReadWithAnOldRoot(t *testing.T) {
	server := realserver.StartS3(t, bucketName)
	o := object.Options{Bucket: bucketOf(t, server), Prefix: "oldroot", Every: time.Millisecond}
	s, other := servertest.Opened(t, o, object.Open), servertest.Opened(t, o, object.Open)
	claim := func(s *object.Store, node string, p int, ttl time.Duration) store.Term {
		t.Helper()
		terms, err := s.Leaser().Claim(t.Context(), node, []int{p}, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return terms[0]
	}
	claim(s, "p", 3, time.Millisecond)
	sh := servertest.Shard(t, s, 7, claim(s, "p", 7, time.Hour))
	servertest.Want(t, "a", sh, servertest.Batch("a"), store.Applied)
	if _, err := s.ReadAfter(t.Context(), 7, func() {
		servertest.Until(t, func() error { // its lease has ended by a clock that is known to some seconds
			if claim(other, "q", 3, time.Hour).IsZero() {
				return errors.New("partition 3 is still p's")
			}
			return nil
		})
		servertest.Want(t, "b", sh, servertest.Batch("b"), store.Applied)
	}); err != nil {
		t.Fatal(err)
	}
	servertest.Want(t, "c", sh, servertest.Batch("c"), store.Applied)
	servertest.WantNames(t, sh, "a", "b", "c")
	servertest.WantNames(t, servertest.Shard(t, other, 7, store.Term{}), "a", "b", "c")
}
