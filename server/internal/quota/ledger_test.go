package quota

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
)

// The ledger and the partitions that it is about are tested together in package partition, against a plain
// count (usage_model_test.go).

func jobs(n int64) message.Amount { return message.Amount{Jobs: n} }

// told is a ledger of partitions that have so many jobs each.
func told(used ...int64) *Ledger {
	l := NewLedger(1, len(used))
	for p, n := range used {
		l.Told(p, l.Next(p), message.Usage{Counted: true, Used: jobs(n)})
	}
	return l
}

// ask asks for room for jobs in a partition, which knows what it was sent last.
func ask(l *Ledger, p int, has, want, more, most int64) (room message.Room, ok bool) {
	return l.Ask(&message.AskRoom{Partition: p, Want: jobs(want), More: jobs(more),
		Has: message.Usage{Counted: true, Used: jobs(has), Stamp: l.parts[p].stamp}},
		Most(&carillon.Quotas{Jobs: most}))
}

// TestNoRoomIsGivenBeforeAllIsKnown, also not of quotas that bound nothing, nor by what is late or not counted.
func TestNoRoomIsGivenBeforeAllIsKnown(t *testing.T) {
	l := NewLedger(1, 2)
	refused := func(when string) {
		t.Helper()
		if room, ok := ask(l, 0, 0, 1, 0, 100); ok || l.Known() {
			t.Errorf("%s: %+v is given", when, room)
		}
	}
	refused("at first")
	late := l.Next(0)
	l.Told(0, l.Next(0), message.Usage{Counted: true})
	refused("when one is known")
	l.Told(1, l.Next(1), message.Usage{Used: jobs(3)})
	refused("when the other has not counted")
	l.Told(1, late, message.Usage{Counted: true})
	refused("by the answer to another message")
	l.Told(1, l.Next(1), message.Usage{Counted: true, Used: jobs(3)})
	if room, ok := ask(l, 0, 0, 1, 0, 100); !ok || room.Room.Jobs < 1 || l.Used() != jobs(3) {
		t.Errorf("%+v, %v; %+v is used", room, ok, l.Used())
	}
	l.Forget()
	refused("when it was forgotten")
}

// TestAskGivesWhatThereIs: all that is wanted or nothing, then what others want, and a small part of what is
// left; never more than the quota.
func TestAskGivesWhatThereIs(t *testing.T) {
	for _, c := range []struct{ used, want, more, most, gives int64 }{
		{used: 10, want: 1, more: 0, most: 11, gives: 1},
		{used: 10, want: 2, more: 0, most: 11, gives: 0},
		{used: 10, want: 1, more: 5, most: 13, gives: 3},
		{used: 10, want: 1, more: 5, most: 100, gives: 6 + 84/8},
		{used: 10, want: 1, more: 0, most: 1_000_000, gives: 1 + spareJobs},
		{used: 10, want: 1, more: 0, most: 0, gives: 1 + spareJobs}, // no quota
		{used: 10, want: 1, more: 0, most: 5, gives: 0},             // set below what there is
	} {
		l := told(0, c.used)
		room, ok := ask(l, 0, 0, c.want, c.more, c.most)
		if room.Room != jobs(c.gives) || ok != (c.gives > 0) {
			t.Errorf("%+v: got %+v, %v", c, room.Room, ok)
		}
		if l.Bounds() != jobs(c.used+c.gives) {
			t.Errorf("%+v: the bounds are %+v", c, l.Bounds())
		}
	}
}

// TestABoundFallsOnlyByWhatIsNew: a partition that does not know its newest room may use it yet; but it may
// have more than the home knows of.
func TestABoundFallsOnlyByWhatIsNew(t *testing.T) {
	l := told(0, 0)
	if room, ok := ask(l, 0, 0, 8, 0, 10); !ok || room.Room != jobs(8) {
		t.Fatalf("%+v, %v", room, ok)
	}
	old := message.AskRoom{Partition: 0, Want: jobs(3), Has: message.Usage{Counted: true, Used: jobs(1)}}
	most := Most(&carillon.Quotas{Jobs: 10})
	if room, ok := l.Ask(&old, most); ok || l.Bounds() != jobs(8) {
		t.Errorf("%+v is given, the bounds are %+v", room, l.Bounds())
	}
	old.Has.Used = jobs(9)
	if room, ok := l.Ask(&old, most); ok || l.Bounds() != jobs(9) {
		t.Errorf("%+v is given, the bounds are %+v", room, l.Bounds())
	}
	if room, ok := ask(l, 0, 1, 3, 0, 10); !ok || room.Room != jobs(3) || l.Bounds() != jobs(4) {
		t.Errorf("%+v, %v, the bounds are %+v", room, ok, l.Bounds())
	}
}

// TestMost is what quotas allow.
func TestMost(t *testing.T) {
	if most := Most(&carillon.Quotas{Jobs: 3}); most.Jobs != 3 || most.Bytes < 1<<60 {
		t.Errorf("%+v", most)
	}
	if most := Most(&carillon.Quotas{PayloadBytes: 3}); most.Bytes != 3 || most.Jobs < 1<<60 {
		t.Errorf("%+v", most)
	}
}
