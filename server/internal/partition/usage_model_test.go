package partition_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/quota"
	"github.com/carillonhq/carillon/server/store"
)

// quotaWorld is a cluster as quotas see it: partitions, the home of the quotas of one namespace, and messages
// on their way. Beside it stands what the partitions have, kept in the plainest way.
type quotaWorld struct {
	t                *testing.T
	random           *rand.Rand
	quotas           carillon.Quotas
	home             *quota.Ledger
	epoch            uint64 // of the home
	parts            []*quotaPart
	wire             []quotaMessage
	batches, decided int
	most             message.Amount // that there may be
	total            message.Amount // at the last check
}

// quotaPart is a partition.
type quotaPart struct {
	*rig
	n     int
	has   map[string]int64 // the payload of each job
	term  int
	holds int // counts when it forgets what it holds
}

// quotaMessage is a message on its way.
type quotaMessage struct {
	arrive func()
	sure   bool // it is sent until it arrives
}

const quotaNamespace = carillon.DefaultNamespace

func newQuotaWorld(t *testing.T, seed uint64) *quotaWorld {
	w := &quotaWorld{t: t, random: rand.New(rand.NewPCG(seed, 11)), epoch: 1,
		quotas: carillon.Quotas{Jobs: 14, PayloadBytes: 450}}
	const partitions = 3
	w.home, w.most = quota.NewLedger(w.epoch, partitions), quota.Most(&w.quotas)
	for p := range partitions {
		r := newRig(t, partition.Config{Partition: p, Settings: func(string) *carillon.Namespace {
			return &carillon.Namespace{Name: quotaNamespace, Quotas: w.quotas}
		}})
		w.parts = append(w.parts, &quotaPart{rig: r, n: p, has: map[string]int64{}})
	}
	return w
}

func (w *quotaWorld) roll(n int) bool       { return w.random.IntN(n) == 0 }
func (w *quotaWorld) any() *quotaPart       { return w.parts[w.random.IntN(len(w.parts))] }
func (w *quotaWorld) send(arrive func())    { w.wire = append(w.wire, quotaMessage{arrive: arrive}) }
func (w *quotaWorld) sendSure(share func()) { w.wire = append(w.wire, quotaMessage{share, true}) }

// deliver lets one of the messages arrive, lets it be lost, or lets it arrive and come again later.
func (w *quotaWorld) deliver() {
	if len(w.wire) == 0 {
		return
	}
	i := w.random.IntN(len(w.wire))
	m := w.wire[i]
	if m.sure || !w.roll(10) {
		w.wire = slices.Delete(w.wire, i, i+1)
	}
	if m.sure || !w.roll(10) {
		m.arrive()
	}
}

// job draws one.
func (w *quotaWorld) job() carillon.Job {
	return carillon.Job{Namespace: quotaNamespace, Name: fmt.Sprint("j", w.random.IntN(8)),
		Due: carillon.In(1000 * time.Hour), Target: carillon.WorkerQueue("q"),
		Data: carillon.Bytes(make([]byte, w.random.IntN(60)), "")}
}

// put puts a job. If there is no room, it asks for some.
func (w *quotaWorld) put(p *quotaPart) {
	j := w.job()
	_, err := p.rig.put(j)
	if need, is := errors.AsType[*message.RoomError](err); is {
		w.ask(p, need.Want)
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	p.flush()
	p.has[j.Name] = int64(len(j.Data.Bytes))
}

// remove deletes a job, if there is one.
func (w *quotaWorld) remove(p *quotaPart, name string) {
	key := carillon.Key{Namespace: quotaNamespace, Name: name}
	p.bring(key)
	if _, err := p.m.Jobs.Delete(p.now, key); err != nil && !errors.Is(err, carillon.NotFound) {
		w.t.Fatal(err)
	}
	p.flush()
	delete(p.has, name)
}

// ask asks the home for room. Its answer is for the term of the partition that has asked.
func (w *quotaWorld) ask(p *quotaPart, want message.Amount) {
	ask := message.AskRoom{Namespace: quotaNamespace, Partition: p.n, Has: p.m.Usage.Of(p.now, quotaNamespace),
		Want: want, More: message.Amount{Jobs: w.random.Int64N(2), Bytes: w.random.Int64N(20)}}
	term := p.term
	w.send(func() {
		if !w.quotas.Stores() {
			return
		}
		room, ok := w.home.Ask(&ask, quota.Most(&w.quotas))
		if !ok {
			if len(w.wire) < 8 { // otherwise one goes on
				w.recount()
			}
			return
		}
		w.send(func() {
			if p.term == term {
				p.m.Usage.Give(quotaNamespace, room)
			}
		})
	})
}

// recount asks all partitions.
func (w *quotaWorld) recount() {
	home := w.home
	for _, p := range w.parts {
		stamp := home.Next(p.n)
		w.send(func() {
			u, newest := p.m.Usage.Recall(p.now, quotaNamespace, stamp)
			if newest && !u.Counted {
				p.count(w.roll(5))
				u, newest = p.m.Usage.Recall(p.now, quotaNamespace, stamp)
			}
			if newest {
				w.send(func() { home.Told(p.n, stamp, u) })
			}
		})
	}
}

// count counts the jobs of a partition, or only a page of them.
func (p *quotaPart) count(part bool) {
	const size = 2
	for {
		after, uncounted := p.m.Usage.Uncounted(quotaNamespace)
		if !uncounted {
			return
		}
		page, err := p.shard.List(context.Background(),
			store.ListQuery{Namespace: quotaNamespace, After: after, Limit: size})
		if err != nil {
			p.t.Fatal(err)
		}
		p.m.Usage.Count(quotaNamespace, after, page, len(page) < size)
		if part {
			return
		}
	}
}

// batch puts jobs in two partitions, or in none: room is held in both first, and once the batch is decided the
// shares arrive some time.
func (w *quotaWorld) batch() {
	w.batches++
	id, first := fmt.Sprint("b", w.batches), w.random.IntN(len(w.parts))
	shares := map[*quotaPart][]message.PutRequest{}
	for k := range 2 {
		p := w.parts[(first+k)%len(w.parts)]
		a, b := w.job(), w.job()
		a.Name, b.Name = "j0", fmt.Sprint("j", 1+w.random.IntN(7))
		shares[p] = []message.PutRequest{{Job: &a, At: p.now}, {Job: &b, At: p.now}}
		for i := range shares[p] {
			p.uids++
			shares[p][i].Random[0], shares[p][i].Random[1] = byte(p.uids), byte(p.uids>>8)
		}
	}
	w.hold(id, shares, 6)
}

// hold holds room for a batch, some times again while there is none, and then decides it.
func (w *quotaWorld) hold(id string, shares map[*quotaPart][]message.PutRequest, tries int) {
	for _, p := range w.parts {
		if shares[p] == nil {
			continue
		}
		for i := range shares[p] {
			p.bring(shares[p][i].Job.Key())
		}
		p.m.Usage.Unhold(id)
		err := p.m.Jobs.Hold(p.now, id, shares[p])
		if err == nil {
			continue
		}
		need, is := errors.AsType[*message.RoomError](err)
		if !is {
			w.t.Fatal(err)
		}
		w.ask(p, need.Want)
		if tries > 0 {
			w.sendSure(func() { w.hold(id, shares, tries-1) })
			return
		}
		for other := range shares {
			other.m.Usage.Unhold(id)
		}
		return
	}
	if w.roll(5) { // it is not decided
		for p := range shares {
			if !w.roll(2) { // or it keeps the room until that is out of date
				p.m.Usage.Unhold(id)
			}
		}
		return
	}
	w.decided++
	for _, p := range w.parts {
		if reqs := shares[p]; reqs != nil {
			w.sendShare(p, id, reqs)
		}
	}
}

func (w *quotaWorld) sendShare(p *quotaPart, id string, reqs []message.PutRequest) {
	holds := p.holds
	w.sendSure(func() {
		for i := range reqs {
			p.bring(reqs[i].Job.Key())
		}
		_, err := p.m.Jobs.ApplyShare(p.now, &message.Share{Batch: id, Reqs: reqs})
		if err != nil {
			w.t.Fatal(err)
		}
		p.flush()
		for i := range reqs {
			j := reqs[i].Job
			p.has[j.Name] = int64(len(j.Data.Bytes))
			if p.holds != holds {
				w.most = w.most.Plus(message.Amount{Jobs: 1, Bytes: int64(len(j.Data.Bytes))})
			}
		}
	})
}

// set has other quotas be in force; zero are none.
func (w *quotaWorld) set(q carillon.Quotas) {
	were := w.quotas.Stores()
	w.quotas = q
	for _, p := range w.parts {
		p.m.Usage.Changed(quotaNamespace)
		if !were || !q.Stores() { // without quotas nothing is held
			p.holds++
		}
	}
	if !q.Stores() {
		w.home.Forget()
		w.most = quota.Most(&q)
		return
	}
	before := len(w.wire)
	w.recount() // who puts the quotas waits until the partitions have given up what room they had
	asked := slices.Clone(w.wire[before:])
	w.wire = w.wire[:before]
	for _, m := range asked {
		m.arrive()
	}
	w.most = quota.Most(&q)
	w.most.Jobs, w.most.Bytes = max(w.most.Jobs, w.total.Jobs), max(w.most.Bytes, w.total.Bytes)
	for _, p := range w.parts { // what is held for batches is so by the quotas before
		w.most = w.most.Plus(p.m.Usage.Of(p.now, quotaNamespace).Room)
	}
}

// check compares what there is with the quotas, and with what partitions say.
func (w *quotaWorld) check(step string) {
	var total message.Amount
	for _, p := range w.parts {
		var has message.Amount
		for _, payload := range p.has {
			has = has.Plus(message.Amount{Jobs: 1, Bytes: payload})
		}
		if w.quotas.Stores() {
			if u := p.m.Usage.Of(p.now, quotaNamespace); u.Counted && u.Used != has {
				w.t.Fatalf("%s: partition %d says that it has %+v, and has %+v", step, p.n, u.Used, has)
			}
		}
		total = total.Plus(has)
	}
	if !total.Fits(w.most) {
		w.t.Fatalf("%s: from %+v it has become %+v, of %+v", step, w.total, total, w.most)
	}
	w.total = total
}

// ends has everything deleted, and checks that nothing is left of it: one partition gets all that the quotas
// allow.
func (w *quotaWorld) ends() {
	for len(w.wire) > 0 {
		w.deliver()
	}
	w.set(carillon.Quotas{Jobs: 7, PayloadBytes: 70})
	for _, p := range w.parts {
		for _, name := range slices.Collect(maps.Keys(p.has)) {
			w.remove(p, name)
		}
		if left := len(p.jobs()); left != 0 {
			w.t.Fatalf("partition %d has %d jobs left", p.n, left)
		}
		p.advance(2 * time.Minute) // until no room is set aside for batches
	}
	w.check("at the end")
	for i := 0; !w.home.Known() || w.home.Bounds() != (message.Amount{}); i++ {
		if i == 100 {
			w.t.Fatalf("%+v of nothing is bounded", w.home.Bounds())
		}
		w.recount()
		for len(w.wire) > 0 {
			w.deliver()
		}
	}
	all := message.AskRoom{Want: message.Amount{Jobs: 7, Bytes: 70}}
	if _, ok := w.home.Ask(&all, quota.Most(&w.quotas)); !ok || w.home.Used() != (message.Amount{}) {
		w.t.Fatalf("%+v of nothing is used, all of it is given: %v", w.home.Used(), ok)
	}
}

// TestQuotasHold whatever is put, changed and deleted, lost, late and doubled, moved, lifted and set: the jobs
// of all partitions never become more than the quotas, but by those of decided batches whose partition has
// forgotten what it held for them; each partition counts exactly; and nothing is left of what is gone.
func TestQuotasHold(t *testing.T) {
	decided := 0
	for seed := range uint64(250) {
		w := newQuotaWorld(t, seed)
		w.recount()
		for i := range 300 {
			step := "a message"
			switch n := w.random.IntN(40); {
			case n < 7:
				step = "a put"
				w.put(w.any())
			case n < 12:
				step = "a delete"
				w.remove(w.any(), w.job().Name)
			case n < 15 && seed%4 > 0:
				step = "a batch"
				w.batch()
			case n == 16 && seed%4 > 1:
				step = "a new owner of a partition"
				p := w.any()
				p.start()
				p.term++
				p.holds++
			case n == 17 && seed%2 > 0:
				step = "a new owner of the home"
				w.epoch++
				w.home = quota.NewLedger(w.epoch, len(w.parts))
			case n == 18 && seed%4 > 2:
				step = "other quotas"
				w.set([]carillon.Quotas{{}, {Jobs: 9}, {PayloadBytes: 200}, {Jobs: 20, PayloadBytes: 700}}[w.random.IntN(4)])
			default:
				for range 1 + w.random.IntN(4) {
					w.deliver()
				}
			}
			w.check(fmt.Sprintf("seed %d, step %d, %s", seed, i, step))
		}
		w.ends()
		decided += w.decided
	}
	if decided == 0 {
		t.Error("no batch was decided")
	}
}
