package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/quota"
	"github.com/carillonhq/carillon/server/store"
)

// quotas holds callers to the quotas of namespaces, on the node that owns the partition of a job:
//
//	call ── take: the rate ──► round: put ──► done
//	          │                  │ no room
//	          │                  ▼
//	          │               acquire ── AskRoom ──► home (quotahomes.go) ── Room ──► the round again
//	          └─ TakeChanges ──► home, when what the node has taken is used up
//
// Nothing is asked for namespaces without quotas.
type quotas struct {
	partitions *partitions
	settings   *settings
	homes      *quotaHomes // of this node's partitions
	elapsed    func() int64
	run        func(f func()) bool           // in the background; false: the engine has ended
	refused    func(namespace, quota string) // counts it

	mu     sync.Mutex
	asking map[askedRoom]*roomAsks
	rates  map[string]*takenChanges // by namespace
}

func newQuotas(ps *partitions, s *settings, elapsed func() int64,
	run func(func()) bool, refused func(namespace, quota string)) *quotas {
	if refused == nil {
		refused = func(string, string) {}
	}
	return &quotas{partitions: ps, settings: s, elapsed: elapsed, run: run, refused: refused,
		asking: map[askedRoom]*roomAsks{},
		rates:  map[string]*takenChanges{}}
}

// over counts a change that is refused for a quota of a namespace, and returns err.
func (q *quotas) over(namespace string, err error) error {
	if e, ok := errors.AsType[*carillon.Error](err); ok && message.OverQuota(e) {
		q.refused(namespace, strings.TrimPrefix(e.Field, "quotas."))
	}
	return err
}

// askedRoom names what room is asked for: of a namespace, in a partition.
type askedRoom struct {
	partition int
	namespace string
}

// roomAsks are the questions to the home of a namespace for room in one partition.
type roomAsks struct {
	next *roomAsk // has not begun; nil: nobody wants room
}

// roomAsk is one question, for all who want room before it begins.
type roomAsk struct {
	done chan struct{}
	want message.Amount // of the one who wants least
	all  message.Amount
	err  error // once done
}

// withRoom calls f, and again whenever it fails for want of room and the home has given some. Others may use
// it up first, so that it is asked for again.
func withRoom[T any](ctx context.Context, q *quotas, f func() (T, error)) (T, error) {
	for {
		value, err := f()
		again, err := q.madeRoom(ctx, err)
		if !again {
			return value, err
		}
	}
}

// madeRoom takes the error of a change. If that is for want of room, it asks for some, and reports whether
// the change is to be made again. The error that it returns is that of the change, or why there is no room.
func (q *quotas) madeRoom(ctx context.Context, err error) (again bool, _ error) {
	need, is := errors.AsType[*message.RoomError](err)
	if !is {
		return false, err
	}
	err = q.acquire(ctx, need)
	return err == nil, err
}

// acquire asks the home for room, together with others.
func (q *quotas) acquire(ctx context.Context, need *message.RoomError) error {
	for {
		a, err := q.join(askedRoom{need.Partition, need.Namespace}, need.Want)
		if err != nil {
			return err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return tooLate(ctx)
		}
		if a.err == nil {
			return nil
		}
		if a.want.Jobs <= need.Want.Jobs && a.want.Bytes <= need.Want.Bytes {
			return q.over(need.Namespace, a.err)
		}
		// What was refused is not less than what this one wants.
	}
}

// join returns the next question for room, with one more who wants some.
func (q *quotas) join(key askedRoom, want message.Amount) (*roomAsk, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	asks := q.asking[key]
	start := asks == nil
	if start {
		asks = &roomAsks{}
		q.asking[key] = asks
	}
	a := asks.next
	if a == nil {
		a = &roomAsk{done: make(chan struct{}), want: want}
		asks.next = a
	}
	if want.Jobs+want.Bytes < a.want.Jobs+a.want.Bytes {
		a.want = want
	}
	a.all = a.all.Plus(want)
	if start && !q.run(func() { q.askAll(key, asks) }) {
		delete(q.asking, key)
		return nil, q.partitions.errStopping()
	}
	return a, nil
}

// askAll asks until nobody wants room any more.
func (q *quotas) askAll(key askedRoom, asks *roomAsks) {
	for {
		q.mu.Lock()
		a := asks.next
		asks.next = nil
		if a == nil {
			delete(q.asking, key)
		}
		q.mu.Unlock()
		if a == nil {
			return
		}
		ctx, cancel := context.WithTimeout(q.partitions.life, askWithin)
		a.err = q.askHome(ctx, key, a)
		cancel()
		close(a.done)
	}
}

// askWithin bounds a question to a home.
const askWithin = 10 * time.Second

// askHome asks the home for room and gives it to the partition.
func (q *quotas) askHome(ctx context.Context, key askedRoom, a *roomAsk) error {
	p := q.partitions.parts[key.partition]
	type usage struct {
		message.Usage
		of store.Term
	}
	has, err := inRoundSeq(ctx, p, call{}, func(p *partitionRunner, now int64) (usage, uint64, error) {
		return usage{p.m.Usage.Of(now, key.namespace), p.own.term}, p.m.Newest(), nil
	})
	if err != nil {
		return certain(err)
	}
	room, err := across(ctx, q.partitions, q.partitions.ofNamespace(key.namespace),
		message.AskRoom{Namespace: key.namespace, Partition: key.partition, Has: has.Usage, Want: a.want,
			More: a.all.Minus(a.want)})
	if err != nil {
		return certain(err)
	}
	_, err = inRoundSeq(ctx, p, call{}, func(p *partitionRunner, _ int64) (struct{}, uint64, error) {
		if p.own.term == has.of { // a later term may have been counted meanwhile, by another home
			p.m.Usage.Give(key.namespace, room)
		}
		return struct{}{}, 0, nil
	})
	return certain(err)
}

// serveCountUsage says what a partition has, once that is durable, and with a stamp takes back the room that
// it has not used. It counts first, if this term has not, as far as that goes in the call's time.
func serveCountUsage(ctx context.Context, p *partitionRunner, m message.CountUsage) (any, error) {
	recall := func() (message.Usage, error) {
		return inRoundSeq(ctx, p, call{}, func(p *partitionRunner, now int64) (message.Usage, uint64, error) {
			if m.Stamp == (message.Stamp{}) {
				return p.m.Usage.Of(now, m.Namespace), p.m.Newest(), nil
			}
			u, newest := p.m.Usage.Recall(now, m.Namespace, m.Stamp)
			if !newest {
				return u, 0, carillon.Errorf(carillon.FailedPrecondition, "stamp", "a later message has overtaken it")
			}
			return u, p.m.Newest(), nil
		})
	}
	u, err := recall()
	for err == nil && !u.Counted {
		if err = p.e.countUsage(ctx, p, m.Namespace); err == nil {
			u, err = recall()
		}
	}
	return u, err
}

// countPage is how many jobs are counted at a time.
const countPage = 1000

// countUsage counts the jobs of a namespace, from where counting has got to. What memory held when it began
// is durable.
func (q *quotas) countUsage(ctx context.Context, p *partitionRunner, namespace string) error {
	var page []store.Record
	read := store.ListQuery{Namespace: namespace, Limit: countPage, MaxSpec: 1}
	for first := true; ; first = false {
		next, err := inRoundSeq(ctx, p, call{}, func(p *partitionRunner, _ int64) (*string, uint64, error) {
			if !first {
				p.m.Usage.Count(namespace, read.After, page, len(page) < countPage)
			}
			after, uncounted := p.m.Usage.Uncounted(namespace)
			if !uncounted {
				return nil, 0, nil
			}
			return &after, p.m.Newest(), nil
		})
		if err != nil || next == nil {
			return err
		}
		read.After = *next
		if page, err = q.partitions.reader(p).List(ctx, read); err != nil {
			return readError(err)
		}
	}
}

// takenChanges are the changes of a namespace that this node has taken from the home and not made.
type takenChanges struct {
	n       int64
	until   int64 // they are of no use from then on, by the engine's clock
	refused int64 // until then the home is not asked again
	free    int64 // when it may have some
	after   int64 // for how many it had none
}

// mayChange takes a change of a job out of the rate of its namespace, or refuses it. Events on their way to
// webhooks are not held up.
func (q *quotas) mayChange(ctx context.Context, key carillon.Key) error {
	_, err := q.takeOne(ctx, key)
	return err
}

// takeOne is mayChange for who may give the change back. It returns until when it holds, as take does.
func (q *quotas) takeOne(ctx context.Context, key carillon.Key) (until int64, err error) {
	if strings.HasPrefix(key.Name, carillon.EventJobs) {
		return 0, nil
	}
	key.Namespace = namespaceOf(key.Namespace)
	if p := q.partitions.of(key); key.Name != "" && q.partitions.remote(p) {
		return 0, nil // its round refuses it, and the owner takes it
	}
	return q.take(ctx, key.Namespace, 1)
}

// take takes n changes of a namespace out of its rate, or refuses them. It returns until when they are of
// use, by the engine's clock; 0: none were taken, as there is no rate.
func (q *quotas) take(ctx context.Context, namespace string, n int64) (until int64, err error) {
	s := q.settings.get(namespace)
	if s == nil || s.Quotas.Puts.Count == 0 || n == 0 {
		return 0, nil
	}
	r := s.Quotas.Puts.WithDefaults()
	if n > r.Burst {
		return 0, q.over(namespace, carillon.Errorf(carillon.ResourceExhausted, "quotas.puts",
			"%s changes at once are more than the burst of namespace %q, %s", grouped(n), namespace,
			grouped(r.Burst)))
	}
	until, wait := q.takeHere(namespace, n)
	if until > 0 {
		return until, nil
	}
	if wait > 0 {
		return 0, q.tooMany(namespace, r, wait)
	}
	began := q.elapsed()
	got, err := across(ctx, q.partitions, q.partitions.ofNamespace(namespace),
		message.TakeChanges{Namespace: namespace, N: n, More: quota.Share(r)})
	if err != nil {
		return 0, certain(err)
	}
	if got.N == 0 {
		q.noneBefore(namespace, n, q.elapsed()+got.After)
		return 0, q.tooMany(namespace, r, got.After)
	}
	until = began + int64(quota.Hold)
	q.keep(namespace, got.N-n, until)
	return until, nil
}

// takeHere takes changes that the node has, and returns until when they are of use; 0: it took none. If it
// knows that there are none, it returns for how long.
func (q *quotas) takeHere(namespace string, n int64) (until, wait int64) {
	now := q.elapsed()
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.rates[namespace]
	switch {
	case t == nil:
		return 0, 0
	case t.n >= n && now < t.until:
		t.n -= n
		return t.until, 0
	case n >= t.after && now < t.refused:
		return 0, t.free - now
	}
	return 0, 0
}

func (q *quotas) keep(namespace string, n, until int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.rates[namespace]
	if t == nil || t.n == 0 || t.until <= q.elapsed() {
		q.rates[namespace] = &takenChanges{n: n, until: until}
		return
	}
	t.n, t.until, t.refused = t.n+n, min(t.until, until), 0
}

// refusedFor is how long a node goes by what it was told last, at most.
const refusedFor = time.Second

// noneBefore notes when there may be room for n changes. What others do not take after all may be there
// earlier.
func (q *quotas) noneBefore(namespace string, n, free int64) {
	now := q.elapsed()
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.rates[namespace]
	if t == nil {
		t = &takenChanges{}
		q.rates[namespace] = t
	}
	t.refused, t.free, t.after = min(free, now+int64(refusedFor)), free, n
}

// giveBack gives back changes that were taken, until then, and not made. Others may make them as long as they
// are of use, no longer: what the rate brings in afterwards is for others.
func (q *quotas) giveBack(namespace string, n, until int64) {
	if q.elapsed() < until {
		q.keep(namespaceOf(namespace), n, until)
	}
}

// forget forgets what was taken by a rate that has changed.
func (q *quotas) forget(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.rates, namespace)
}

func (q *quotas) tooMany(namespace string, r carillon.Rate, wait int64) error {
	e := carillon.Errorf(carillon.ResourceExhausted, "quotas.puts",
		"namespace %q may change %s jobs in %s, %s at once", namespace, grouped(r.Count), schedule.Brief(r.Period),
		grouped(r.Burst))
	e.RetryAfter = time.Duration(wait)
	return q.over(namespace, e)
}

// takeEach is mayChange for the jobs of a batch: for all of them, or for none.
func (q *quotas) takeEach(ctx context.Context, jobs []carillon.Job) error {
	of := map[string]int64{}
	for i := range jobs {
		if !strings.HasPrefix(jobs[i].Name, carillon.EventJobs) {
			of[namespaceOf(jobs[i].Namespace)]++
		}
	}
	namespaces := slices.Sorted(maps.Keys(of))
	until := make([]int64, len(namespaces))
	for i, namespace := range namespaces {
		var err error
		if until[i], err = q.take(ctx, namespace, of[namespace]); err != nil {
			for k, taken := range namespaces[:i] {
				q.giveBack(taken, of[taken], until[k])
			}
			return err
		}
	}
	return nil
}

// grouped writes a number with commas between groups of three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
