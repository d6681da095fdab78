package pebble

import (
	"bytes"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

func sameHead(a, b *head) bool {
	return bytes.Equal(a.append(nil), b.append(nil)) && bytes.Equal(a.body, b.body)
}

// TestBodyLengths crosses the lengths at which the state's length takes more bytes.
func TestBodyLengths(t *testing.T) {
	for _, n := range []int{0, 1, 100, 127, 128, 16_000, 16_383, 16_384, 70_000, 3 << 20} {
		s := store.State{Queue: string(make([]byte, n))}
		want := codec.AppendState(nil, &s)
		state, sp, err := splitBody(appendBody(nil, &s, spec{form: specInBody, inline: []byte("abc")}))
		if err != nil || !bytes.Equal(state, want) || string(sp.inline) != "abc" {
			t.Errorf("queue of %d bytes: state of %d bytes, want %d; spec %q; %v", n, len(state),
				len(want), sp.inline, err)
		}
	}
}

// TestHeadsSayWhatTheStateSays: which index entries a record has follows from its state alone, and is read
// back as it was written.
func TestHeadsSayWhatTheStateSays(t *testing.T) {
	uid := carillon.UID{1, 2, 3}
	run := store.RunState{Live: true, Scheduled: -5, Seq: 300, Due: 9, Cause: carillon.CauseTrigger}
	for _, c := range []struct {
		name  string
		state store.State
		want  headFlags
	}{
		{"idle", store.State{Priority: 3}, 0},
		{"due", store.State{Priority: 1, Due: -7}, hasDue},
		{"running", store.State{UID: uid, Due: 8, Run: run}, hasDue | hasLive},
		{"staged", store.State{UID: uid, Phase: carillon.PhaseStaged, Queue: "a\x00b", Run: run},
			hasStaged | hasLive},
		{"waiting", store.State{Priority: 3, Phase: carillon.PhaseWaiting, Due: 5}, hasDue},
		{"everything", store.State{UID: uid, Due: 1, Phase: carillon.PhaseStaged, Queue: "q", Run: run},
			hasDue | hasStaged | hasLive},
	} {
		h := headOf(9, &c.state)
		if h.flags != c.want || h.bodyInHead() != (c.want&(hasDue|hasStaged) == 0) {
			t.Errorf("%s: flags %b, want %b", c.name, h.flags, c.want)
		}
		h.flags |= specApart | headTwice
		h.specLen = 70_000
		written := append(h.append(nil), "body"...)
		got, err := parseHead(9, written)
		if err != nil || got.phase != c.state.Phase || got.priority != c.state.Priority ||
			!sameHead(&got, &head{flags: h.flags, priority: h.priority, phase: h.phase, due: h.due, queue: h.queue,
				runDue: h.runDue, live: h.live, specLen: h.specLen, body: []byte("body")}) || got.live != h.live {
			t.Errorf("%s: read back as %+v, %v", c.name, got, err)
		}
		for n := range len(written) - len("body") {
			if cut, err := parseHead(9, written[:n]); err == nil {
				t.Fatalf("%s: %d bytes of it are read as %+v", c.name, n, cut)
			}
		}
	}
}
