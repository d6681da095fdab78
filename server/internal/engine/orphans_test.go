package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// attemptNo returns the token of an attempt, and its text.
func attemptNo(n int) (message.Token, string) {
	return message.Token{Attempt: n}, string(rune('a' + n))
}

func handedNo(n int, until int64, stream bool) partition.Handed {
	h := partition.Handed{Until: until, Here: true, Written: true}
	if _, h.Token = attemptNo(n); stream {
		h.Queue.Kind = streamKind
	}
	return h
}

func tokenOf(text string) message.Token { tok, _ := attemptNo(int(text[0] - 'a')); return tok }

func textsOf(beats []heartbeat) (texts []string) {
	for _, b := range beats {
		texts = append(texts, b.text)
	}
	slices.Sort(texts)
	return texts
}

func TestOrphansGetHeartbeats(t *testing.T) {
	const every = int64(partition.KeptHeartbeatInterval)
	var o orphans
	o.add([]partition.Handed{handedNo(0, 1, true), handedNo(1, 1, false), handedNo(2, 1, true),
		handedNo(3, 1, true)}, tokenOf, 10, 0)
	beats := func(now int64, want ...string) {
		t.Helper()
		if got := textsOf(o.heartbeats(now, nil)); !slices.Equal(got, want) {
			t.Errorf("heartbeats at %d: %v, want %v", now, got, want)
		}
	}
	beats(10, "a", "c", "d") // at once; the consumers of the others send their own
	beats(9 + every)
	beats(10+every, "a", "c", "d")
	beats(9 + 2*every)
	progress, result := &delivery.Report{}, &delivery.Report{}
	progress.Outcome, result.Outcome = carillon.OutcomeProgress, carillon.OutcomeSuccess
	stale := &mail{
		reported: reported{reports: []report{{tok: tokenOf("a"), Report: progress},
			{tok: tokenOf("c"), Report: result}}},
		staleOrphans: []string{"d", "c"},
	}
	if cancel := o.settle(stale); len(cancel) != 2 || cancel[0].Token != "c" || cancel[1].Token != "d" {
		t.Errorf("to cancel: %v", cancel)
	}
	if cancel := o.settle(stale); len(cancel) != 0 {
		t.Errorf("to cancel once more: %v", cancel)
	}
	beats(10+2*every, "a")
	o.settle(&mail{reported: reported{losses: []loss{{tok: tokenOf("a")}}}})
	beats(10 + 3*every)
	if len(o.all) != 4 {
		t.Errorf("%d of 4 orphans are left: others may still run them", len(o.all))
	}
}

func TestUnwrittenAttemptsAreNoOrphans(t *testing.T) {
	h := handedNo(0, 1, true)
	h.Written = false
	var o orphans
	if unknown := o.add([]partition.Handed{h}, tokenOf, 0, 0); len(unknown) != 1 ||
		unknown[0].Token != h.Token || len(o.all) != 0 {
		t.Errorf("to cancel: %v, orphans: %v", unknown, o.all)
	}
}

// TestOrphansEnd adds attempts of many terms: each is cancelled once, in the order of their ends, and never
// before the end of its lease.
func TestOrphansEnd(t *testing.T) {
	var o orphans
	rng, until, ended := rand.New(rand.NewPCG(5, 6)), map[string]int64{}, map[string]bool{}
	now := int64(0)
	for range 200 {
		now += rng.Int64N(int64(orphanGrace))
		n := rng.IntN(20)
		if _, text := attemptNo(n); !ended[text] {
			until[text] = max(until[text], now+rng.Int64N(int64(orphanGrace)))
			o.add([]partition.Handed{handedNo(n, until[text], false)}, tokenOf, now, now)
		}
		inForce := func(tok message.Token) bool { return tok.Attempt == 19 }
		for _, c := range o.end(now, inForce) {
			if ended[c.Token] || c.Token == "t" {
				t.Fatalf("%s is cancelled twice, or in force", c.Token)
			}
			if ended[c.Token] = true; until[c.Token]+int64(orphanGrace) > now {
				t.Fatalf("%s is cancelled at %d, its lease ends at %d", c.Token, now, until[c.Token])
			}
		}
		if at, ok := o.nextEnd(); ok && at <= now {
			t.Fatalf("the next end is at %d, now is %d", at, now)
		}
	}
	if len(ended) < 10 {
		t.Errorf("only %d were cancelled", len(ended))
	}
}
