package partition_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

// homePartitions is how many partitions the limits have their homes in.
const homePartitions = 8

// street is partitions with reminders of one type, which get their permits from the homes of the limits. Those
// hear of a new number later than the partitions, and all messages take their time.
type street struct {
	rt      *rapid.T
	now     int64
	most    map[delivery.Limit]int // as homes know it
	ceiling map[delivery.Limit]int // what may be in force until all have heard of what has changed
	inForce map[delivery.Limit]int
	homes   []*permit.Home
	houses  []*house
	wires   []func() // messages under way, and rounds that must follow
	left    int      // runs that have not ended
}

// house is a partition.
type house struct {
	*rig
	*street
	pool     *permit.Pool
	reserved []reservation
	limits   bool // they have changed
	inForce  []delivery.Delivery
}

type reservation struct {
	line delivery.Line
	n    int
}

func newStreet(rt *rapid.T) *street {
	s := &street{rt: rt, now: epoch, most: map[delivery.Limit]int{}, inForce: map[delivery.Limit]int{}}
	for _, key := range []string{"", "n", "m"} {
		s.most[s.limit(key)] = rapid.IntRange(1, 5).Draw(rt, "limit")
	}
	s.settled()
	for range homePartitions {
		s.homes = append(s.homes, permit.NewHome(store.Term{Epoch: 1, Nonce: 1}, s.limitOf, nil))
	}
	for i := range rapid.IntRange(1, 3).Draw(rt, "partitions") {
		s.houses = append(s.houses, s.house(i, rapid.IntRange(0, 20).Draw(rt, "runs")))
	}
	return s
}

func (s *street) house(i, runs int) *house {
	h := &house{street: s}
	h.pool = permit.NewPool(message.Asker{Partition: i, Term: store.Term{Epoch: 1, Nonce: 1}}, homePartitions,
		s.limitOf, func(_ int, l delivery.Line, n int) { h.reserved = append(h.reserved, reservation{l, n}) })
	h.rig = newRig(s.rt, partition.Config{Limiter: h.pool})
	for k := range runs {
		key := rapid.SampledFrom([]string{"", "n", "m"}).Draw(s.rt, "key")
		h.mustPut(carillon.Job{Name: fmt.Sprintf("dapr/actor/cat/%d/%03d", i, k),
			Due: carillon.At(time.Unix(0, epoch-int64(runs-k))), FailurePolicy: carillon.Drop(),
			Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: fmt.Sprint(i),
				ConcurrencyKey: key}}})
	}
	s.left += runs
	return h
}

func (s *street) limit(key string) delivery.Limit {
	return delivery.ActorLimit(carillon.DefaultNamespace, "cat", key)
}

func (s *street) limitOf(l delivery.Limit) (int, bool) {
	n, limited := s.most[l]
	return n, limited
}

// settled notes that all have heard of what has changed: from now on no attempt begins beyond a limit.
func (s *street) settled() {
	s.ceiling = maps.Clone(s.most)
}

// change sets a limit. The partitions know before the home does.
func (s *street) change(l delivery.Limit, most int) {
	for _, h := range s.houses {
		h.limits = true
	}
	s.wires = append(s.wires, func() {
		s.most[l] = most
		s.ceiling[l] = max(s.ceiling[l], most)
		home := permitrecord.HomeOf(l, homePartitions)
		s.homes[home].Changed("")
		s.speak(home)
	})
}

// speak sends what a home has to say.
func (s *street) speak(home int) {
	s.homes[home].Write()
	for _, n := range s.homes[home].Notices() {
		s.wires = append(s.wires, func() { s.houses[n.Partition].pool.Hear([]message.PermitGrant{n.PermitGrant}) })
	}
}

// ask sends what a partition has to ask.
func (h *house) ask() {
	from := message.Asker{Partition: slices.Index(h.houses, h), Term: store.Term{Epoch: 1, Nonce: 1}}
	for _, a := range h.pool.Asks(h.street.now) {
		h.wires = append(h.wires, func() {
			grants := h.homes[a.Home].Answer(from, a.Asks)
			h.wires = append(h.wires, func() { h.pool.Answered(h.street.now, a.Home, grants, true) })
			h.speak(a.Home)
		})
	}
}

// hear is the part of a round of the engine that comes before runs move.
func (h *house) hear() {
	if h.limits {
		h.limits = false
		h.m.Permits.ForgoKept("")
		h.pool.Changed("")
	}
	h.m.Permits.ForgoKeptOf(h.pool.Recalled())
}

// round is a round of the engine with n free slots.
func (h *house) round(n int) {
	h.rig.now = h.street.now
	h.step()
	h.hear()
	reserved := h.reserved
	h.reserved = nil
	for _, r := range reserved {
		h.m.Promote(h.rig.now, r.line, r.n)
	}
	for _, q := range append(h.m.Permits.Promoted(), queueCat) {
		if sq, ok := h.m.Window.WantStaged(q, 100); ok {
			h.m.LoadStaged(q, sq, h.staged(sq), h.rig.now)
		}
	}
	h.m.Deliver(nil, h.rig.now, queueCat, n, false, nil)
	h.m.Permits.ReturnUnused()
	ds, _ := h.granted()
	for _, d := range ds {
		h.count(d, 1)
		h.inForce = append(h.inForce, d)
	}
	h.ask()
}

// count counts an attempt that begins or ends.
func (s *street) count(d delivery.Delivery, by int) {
	j := carillon.Job{Namespace: d.Run.Namespace, Target: d.Target}
	for _, l := range delivery.AppendLimits(nil, &j, nil) {
		if s.inForce[l] += by; by > 0 && s.inForce[l] > s.ceiling[l] {
			s.rt.Fatalf("%d are in force of %q, whose limit is %d", s.inForce[l], l.Key, s.ceiling[l])
		}
	}
}

// end ends an attempt.
func (h *house) end(i int) {
	d := h.inForce[i]
	h.inForce = slices.Delete(h.inForce, i, i+1)
	if v := h.succeed(d); v != partition.Accepted {
		h.rt.Fatalf("%s: %v", d.Run.Job, v)
	}
	h.flush()
	h.count(d, -1)
	h.street.left--
}

// poll is what no event triggers.
func (s *street) poll() {
	s.now += int64(time.Second)
	s.remind()
	for _, h := range s.houses {
		h.m.Permits.WaitAgain()
		h.pool.Poll(s.now)
		h.ask()
	}
}

// remind has the homes repeat what those have who have permits.
func (s *street) remind() {
	for i, home := range s.homes {
		home.Poll()
		s.speak(i)
	}
}

// arrive has the i-th message arrive.
func (s *street) arrive(i int) {
	do := s.wires[i]
	s.wires = slices.Delete(s.wires, i, i+1)
	do()
}

// calm has all messages arrive, and no run move. Homes repeat what they have said last: that may have arrived
// in another order.
func (s *street) calm() {
	s.arriveAll()
	s.remind()
	s.arriveAll()
	s.settled()
}

func (s *street) arriveAll() {
	for range 1000 {
		if len(s.wires) == 0 {
			return
		}
		for len(s.wires) > 0 {
			s.arrive(0)
		}
		for _, h := range s.houses {
			h.hear()
			h.ask()
		}
	}
	s.rt.Fatal("messages do not come to an end")
}

// settleRounds is within how many rounds everything settles. A permit may go from partition to partition, and
// come back unused from each, before it reaches a run that has all its other permits.
const settleRounds = 100

// quiet lets everything settle, with many slots, and checks that whoever waits must.
func (s *street) quiet() {
	for i := range settleRounds {
		s.calm()
		for _, h := range s.houses {
			h.round(100)
		}
		s.poll()
		if i >= 9 && s.needless() == 0 {
			return
		}
	}
	s.rt.Fatalf("%d runs wait for nothing; %v are in force of %v", s.needless(), s.inForce, s.most)
}

// needless returns how many runs wait although no limit is reached.
func (s *street) needless() int {
	for _, key := range []string{"", "n", "m"} {
		if l := s.limit(key); s.inForce[l] >= s.most[l] {
			return 0
		}
	}
	return s.left - s.inForce[s.limit("")]
}

// TestLimitsWithHomes: limits go up and down, and each has its home elsewhere. Once all have heard of a lower
// number, no attempt begins beyond it. All runs run, and all permits come back.
func TestLimitsWithHomes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStreet(rt)
		for range 10_000 {
			h := s.houses[rapid.IntRange(0, len(s.houses)-1).Draw(rt, "partition")]
			switch rapid.IntRange(0, 10).Draw(rt, "then") {
			case 0, 1:
				h.round(rapid.IntRange(0, 3).Draw(rt, "slots"))
			case 2, 3:
				if n := len(s.wires); n > 0 {
					s.arrive(rapid.IntRange(0, n-1).Draw(rt, "message"))
				}
			case 4:
				s.change(s.limit(rapid.SampledFrom([]string{"", "n", "m"}).Draw(rt, "key")),
					rapid.IntRange(1, 5).Draw(rt, "another"))
			case 5:
				s.calm()
			case 6:
				s.poll()
			case 7:
				s.now += int64(2 * time.Second)
				h.m.Window.StageAside(s.now, rapid.IntRange(1, 10).Draw(rt, "parked"))
				h.flush()
			case 8, 9:
				if len(h.inForce) > 0 {
					h.end(rapid.IntRange(0, len(h.inForce)-1).Draw(rt, "ends"))
				}
			default:
				s.quiet()
				if s.left == 0 {
					s.over()
					return
				}
			}
		}
		rt.Fatal("it does not come to an end")
	})
}

// over checks that nothing is left.
func (s *street) over() {
	for range 10 {
		s.calm()
		s.poll()
	}
	for i, h := range s.houses {
		if left := h.pool.Left(); left != "" {
			s.rt.Fatalf("partition %d has %s", i, left)
		}
	}
	for l, n := range s.inForce {
		if n != 0 {
			s.rt.Fatalf("%d are in force of %q", n, l.Key)
		}
	}
}
