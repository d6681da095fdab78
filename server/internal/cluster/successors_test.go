package cluster

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// TestSuccessors: who has said that it stays, or is silent for as long as it counts as living.
func TestSuccessors(t *testing.T) {
	const life = 3 * time.Second
	s := newSuccessors()
	members := []store.Member{
		{ID: "me", Nonce: 1, Capacity: 1}, {ID: "stays", Nonce: 2, Capacity: 1},
		{ID: "leaves", Nonce: 3, Capacity: 1}, {ID: "silent", Nonce: 4, Capacity: 1}, {ID: "drained", Nonce: 5},
	}
	for _, step := range []struct {
		at      time.Duration
		unknown int
		stays   []uint64
	}{
		{0, 3, []uint64{2}},
		{time.Second, 2, []uint64{2}},
		{life - 1, 2, []uint64{2}},
		{life, 2, []uint64{2, 4}},
		{life + 1, 1, []uint64{2, 4}},
	} {
		asked := s.unknown(members, "me")
		s.record(asked, map[string]Status{"stays": {Nonce: 2}, "leaves": {Nonce: 3, Leaving: true},
			"silent": {Nonce: 40}}, step.at, life) // which is another process of that name
		if len(asked) != step.unknown {
			t.Errorf("at %v: %d are asked, want %d", step.at, len(asked), step.unknown)
		}
		stay := 0
		for _, is := range s.stays {
			if is {
				stay++
			}
		}
		for _, nonce := range step.stays {
			if !s.stays[nonce] || stay != len(step.stays) {
				t.Errorf("at %v: %v stay, want %v", step.at, s.stays, step.stays)
			}
		}
	}
}

// TestSuccessorThatAnswersLate: its silence counts no more.
func TestSuccessorThatAnswersLate(t *testing.T) {
	s, asked := newSuccessors(), []store.Member{{ID: "a", Nonce: 1, Capacity: 1}}
	s.record(asked, nil, 0, time.Second)
	s.record(asked, map[string]Status{"a": {Nonce: 1, Leaving: true}}, 999*time.Millisecond, time.Second)
	s.record(asked, nil, 1500*time.Millisecond, time.Second)
	if s.stays[1] {
		t.Error("it stays")
	}
}
