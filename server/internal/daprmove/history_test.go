package daprmove

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// model is an etcd in which jobs come, run and go. All of them begin in the same way, as if one script had set
// them up.
type model struct {
	random   *rand.Rand
	revision int64
	now      time.Time
	stored   map[string]*mvccpb.KeyValue
}

func newModel(seed uint64, begun time.Time) *model {
	m := &model{random: rand.New(rand.NewPCG(seed, 7)), revision: 1, now: begun, stored: map[string]*mvccpb.KeyValue{}}
	for i := range 5 {
		m.put(fmt.Sprint(i))
	}
	return m
}

func (m *model) store(key string, message proto.Message) {
	b, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	m.revision++
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: b, CreateRevision: m.revision, ModRevision: m.revision, Version: 1}
	if old := m.stored[key]; old != nil {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
	}
	m.stored[key] = kv
}

func (m *model) put(name string) {
	m.store(daprrecord.JobPrefix+name, &cronpb.StoredJob{PartitionId: m.random.Uint64(),
		Begin: &cronpb.StoredJob_Start{Start: timestamppb.New(m.now)}})
}

// live makes n changes, in a time that differs from etcd to etcd; long is the share of jobs that stay.
func (m *model) live(n int, long float64) {
	for range n {
		m.now = m.now.Add(time.Duration(m.random.Int64N(int64(2 * time.Minute))))
		name := fmt.Sprint(m.random.IntN(30))
		switch x := m.random.Float64(); {
		case x < long:
			m.put("long " + fmt.Sprint(m.revision))
		case x < 0.4:
			m.put(name)
		case x < 0.7:
			m.store(daprrecord.CounterPrefix+name, &cronpb.Counter{LastTrigger: timestamppb.New(m.now)})
		case m.stored[daprrecord.JobPrefix+name] != nil:
			m.revision++
			delete(m.stored, daprrecord.JobPrefix+name)
		}
	}
}

func (m *model) history() History {
	var all []*mvccpb.KeyValue
	for _, kv := range m.stored {
		all = append(all, kv)
	}
	slices.SortFunc(all, func(a, b *mvccpb.KeyValue) int { return slices.Compare(a.Key, b.Key) })
	return historyOf(m.revision, all)
}

// TestKinOfHistories: two states of one etcd are never taken for those of two, and states of two never for
// those of one, whole or as a mark keeps them.
func TestKinOfHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		long := []float64{0, 0.1}[seed%2]
		verdicts := map[string]map[kinship]int{"one": {}, "two": {}}
		one := newModel(seed, begun)
		two := newModel(seed+1000, begun.Add(time.Duration(random.Int64N(int64(30*24*time.Hour)))))
		var states, others []History
		for range 6 {
			one.live(random.IntN(400), long)
			two.live(random.IntN(4000), long)
			states, others = append(states, one.history()), append(others, two.history())
		}
		cut := func(h History) History { return h.sample(1 + random.IntN(tracesOfMark)) }
		for _, a := range states {
			for _, b := range states {
				for _, k := range []kinship{a.kinOf(b), b.kinOf(a), cut(a).kinOf(b), b.kinOf(cut(a))} {
					verdicts["one"][k]++
				}
			}
			for _, b := range others {
				for _, k := range []kinship{a.kinOf(b), b.kinOf(a), cut(a).kinOf(b), a.kinOf(cut(b))} {
					verdicts["two"][k]++
				}
			}
		}
		of, not := verdicts["one"], verdicts["two"]
		if of[other] > 0 || not[same] > 0 || of[same] == 0 || long > 0 && of[unknown]+not[unknown] > of[same]+not[other] {
			t.Errorf("seed %d: states of one etcd are the same (1) or of others (2) or unknown (0): %v; of two: %v", seed, of, not)
		}
	}
}

// TestAClockAloneTellsNothingWithinAnHour: members' clocks may differ.
func TestAClockAloneTellsNothingWithinAnHour(t *testing.T) {
	early := History{Revision: 10, Until: 10, Clock: 100000, Records: []trace{{Key: 1, Created: 3, Modified: 3}}}
	late := History{Revision: 20, Until: 20, Records: []trace{{Key: 2, Created: 12, Modified: 12, Clock: 100000 - clockSlack}}}
	if k := early.kinOf(late); k != unknown {
		t.Errorf("an hour before: %v", k)
	}
	late.Records[0].Clock--
	if k := late.kinOf(early); k != other {
		t.Errorf("more than an hour before: %v", k)
	}
}

// TestARecordThatBothHave is proof, also if one etcd was restored from a copy of the other and has gone on by itself, or was
// made again from a file.
func TestARecordThatBothHave(t *testing.T) {
	state := History{Revision: 100, Until: 100, Clock: 1000,
		Records: []trace{{Key: 1, Value: 5, Created: 3, Modified: 3}, {Key: 2, Value: 6, Created: 70, Modified: 70}}}
	for name, other := range map[string]History{
		"restored": {Revision: 120, Until: 120, Records: []trace{{Key: 1, Value: 5, Created: 3, Modified: 3},
			{Key: 3, Value: 7, Created: 60, Modified: 60}}},
		"made again": {Revision: 9, Until: 9, Records: []trace{{Key: 1, Value: 5, Created: 2, Modified: 2, Clock: 1}}},
	} {
		if a, b := state.kinOf(other), other.kinOf(state); a != same || b != same {
			t.Errorf("%s: %v and %v", name, a, b)
		}
	}
}

// TestAMarkKnowsMoreThanTheOldest: when those have ended, what is left tells whose it is.
func TestAMarkKnowsMoreThanTheOldest(t *testing.T) {
	var state, next History
	state.Revision, next.Revision = 1000, 2000
	for i := range uint64(1000) {
		r := trace{Key: i, Value: i * 0x9e3779b97f4a7c15, Created: int64(i + 1), Modified: int64(i + 1)}
		state.Records = append(state.Records, r)
		if i >= 2*tracesOfMark {
			next.Records = append(next.Records, r)
		}
	}
	state.Until, next.Until = state.Revision, next.Revision
	if kept := state.sample(tracesOfMark); kept.kinOf(next) != same || len(kept.Records)+len(kept.Samples) > 2*tracesOfMark {
		t.Errorf("%v, of %d records and %d samples", kept.kinOf(next), len(kept.Records), len(kept.Samples))
	}
}
