package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
)

// fakeOwner is a partition's owner on another node. It refuses whole messages that hold a bad token, and
// answers nothing while it is away.
type fakeOwner struct {
	mu    sync.Mutex
	away  bool
	bad   string
	taken []string
	asked int
}

func (o *fakeOwner) Ask(_ context.Context, _ int, m message.Message) (any, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if o.away {
		return nil, carillon.Errorf(carillon.Unavailable, "", "away")
	}
	var result message.RelayResult
	for _, r := range m.(message.RelayReports).Reports {
		if r.Token == o.bad {
			return nil, carillon.Errorf(carillon.InvalidArgument, "reports", "bad")
		}
		result.Accepted = append(result.Accepted, r.Token)
	}
	o.taken = append(o.taken, result.Accepted...)
	return result, nil
}

// relayRig is a relay with a mailbox that nobody else empties.
type relayRig struct {
	relay
	dropped int
}

func newRelayRig(t *testing.T, owner *fakeOwner) *relayRig {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	rig := &relayRig{}
	rig.relay = relay{
		box: &mailbox{wake: func() {}}, peers: owner, log: slog.New(slog.DiscardHandler), life: ctx, wg: &wg,
		dropped: func(n int) { rig.dropped += n },
	}
	return rig
}

func (r *relayRig) report(texts ...string) {
	r.box.put(func(m *mail) {
		for _, text := range texts {
			rep := &delivery.Report{}
			rep.Token, rep.Outcome = text, carillon.OutcomeSuccess
			m.reports = append(m.reports, report{tok: tokenOf(text), Report: rep})
		}
	})
}

// round starts a part, waits for its end, and takes note of it.
func (r *relayRig) round() {
	r.start()
	time.Sleep(lastPause)
	synctest.Wait()
	var outcomes []bool
	r.box.keep(func(m *mail) { outcomes, m.relayed = m.relayed, nil })
	r.ended(outcomes)
}

func TestRelayKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := &fakeOwner{away: true}
		r := newRelayRig(t, owner)
		r.report("a", "b")
		for want := firstPause; want < lastPause; want *= 2 {
			if r.round(); r.busy() || r.pause != want {
				t.Fatalf("busy: %v, the next try after %v, want %v", r.busy(), r.pause, want)
			}
		}
		r.report("c")
		owner.away = false
		if r.round(); !slices.Equal(owner.taken, []string{"a", "b", "c"}) || r.pause != 0 {
			t.Errorf("taken: %v, the next part after %v", owner.taken, r.pause)
		}
		asked := owner.asked
		if r.round(); owner.asked != asked || r.busy() {
			t.Error("nothing was left to relay")
		}
	})
}

// TestRelayDropsOnlyTheBad: a part that its owner refuses for good is halved.
func TestRelayDropsOnlyTheBad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := &fakeOwner{bad: "c"}
		r := newRelayRig(t, owner)
		r.report("a", "b", "c", "d", "e")
		r.round()
		if !slices.Equal(owner.taken, []string{"a", "b", "d", "e"}) || r.dropped != 1 {
			t.Errorf("taken: %v, dropped: %d", owner.taken, r.dropped)
		}
		if in := r.box.take(); len(in.reports) != 0 {
			t.Errorf("%d reports are kept", len(in.reports))
		}
	})
}

func TestARelayThatIsStoppedKeepsItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := &fakeOwner{}
		r := newRelayRig(t, owner)
		r.report("a", "b")
		r.pause = time.Hour
		r.start()
		r.report("c")
		r.stop()
		synctest.Wait()
		in := r.box.take()
		var texts []string
		for _, rep := range in.reports {
			texts = append(texts, rep.Token)
		}
		if !slices.Equal(texts, []string{"a", "b", "c"}) || !slices.Equal(in.relayed, []bool{false}) ||
			owner.asked != 0 {
			t.Errorf("kept: %v, outcomes: %v, asked %d times", texts, in.relayed, owner.asked)
		}
	})
}

// TestReportsOutliveTheirResults: of reports that wait for an owner the results of runs are bounded, and what the
// consumers still hold is left alone.
func TestReportsOutliveTheirResults(t *testing.T) {
	var m mail
	const most = responsesKept / carillon.MaxResponse
	var given []*delivery.Report
	for range most + 3 {
		given = append(given, &delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeSuccess,
			Response: make([]byte, carillon.MaxResponse)}})
		m.reports = append(m.reports, report{Report: given[len(given)-1]})
	}
	m.reports = append(m.reports, report{Report: &delivery.Report{}})
	if dropped, shortened := m.limit(); dropped != 0 || shortened != 3 {
		t.Errorf("%d dropped, %d shortened", dropped, shortened)
	}
	if dropped, shortened := m.limit(); dropped != 0 || shortened != 0 {
		t.Errorf("once more: %d dropped, %d shortened", dropped, shortened)
	}
	for i, r := range given {
		kept := m.reports[i]
		if len(r.Response) != carillon.MaxResponse || kept.Outcome != carillon.OutcomeSuccess ||
			(len(kept.Response) == 0) != (i >= most) {
			t.Errorf("report %d: %d bytes, kept %d", i, len(r.Response), len(kept.Response))
		}
	}
}

// silentPeers answer nothing.
type silentPeers struct{ asked chan struct{} }

// Ask implements [message.Partitions].
func (p silentPeers) Ask(ctx context.Context, _ int, _ message.Message) (any, error) {
	close(p.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestALossThatWasBeingRelayed when a term began here comes back as one of an earlier term.
func TestALossThatWasBeingRelayed(t *testing.T) {
	box := &mailbox{wake: func() {}}
	var wg sync.WaitGroup
	peers := silentPeers{make(chan struct{})}
	r := relay{box: box, peers: peers, log: slog.New(slog.DiscardHandler), life: t.Context(), wg: &wg,
		macKey: make([]byte, 32)}
	box.put(func(m *mail) { m.losses = []loss{{undelivered: true}} })
	r.start()
	<-peers.asked
	r.stop() // a term begins, and marks the losses that are in the mailbox
	wg.Wait()
	if in := box.take(); len(in.losses) != 1 || !in.losses[0].former || !in.losses[0].others {
		t.Errorf("came back: %+v", in.losses)
	}
}
