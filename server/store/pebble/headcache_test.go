package pebble

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// headKnown is the head that k knows for a key: "" if it knows nothing, "absent" if it knows that there is
// none.
func headKnown(k *headCache, key string) string {
	entry := k.look(nil, []byte(key))
	if len(entry) == 0 {
		return ""
	}
	f, rest := cutFact(entry)
	switch {
	case string(f.key) != key || len(rest) > 0:
		return "damaged"
	case !f.exists:
		return "absent"
	}
	return string(f.head)
}

func factOf(key, head string) *fact {
	return &fact{key: []byte(key), exists: head != "", head: []byte(head)}
}

// A read that began before a commit and ends after it teaches nothing, whatever the commit wrote.
func TestKnownDropsLateReads(t *testing.T) {
	k := newHeadCache(1 << 16)
	turn := k.turns.Load()
	k.learn(turn, factOf("a", ""))
	k.learn(turn, factOf("b", "1"))
	k.change(appendFact(nil, factOf("a", "2")))
	k.learn(turn, factOf("a", ""))
	k.learn(turn, factOf("c", "1"))
	k.change(appendFact(appendFact(nil, factOf("b", "")), factOf("d", "3")))
	for key, want := range map[string]string{"a": "2", "b": "", "c": "", "d": "3"} {
		if got := headKnown(k, key); got != want {
			t.Errorf("%s: %q is known, want %q", key, got, want)
		}
	}
	turn = k.turns.Load()
	k.forget()
	k.learn(turn, factOf("a", "2"))
	if got := headKnown(k, "a"); got != "" {
		t.Errorf("%q is known after everything was forgotten", got)
	}
}

// What is known is what the last change or read said, or nothing, whatever was dropped for want of room.
func TestKnownIsTrueOrNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	k := newHeadCache(4 << 10)
	truth := map[string]string{}
	hits := 0
	for step := range 20_000 {
		key := fmt.Sprint("key-", r.IntN(60))
		head := fmt.Sprint(step)
		switch r.IntN(4) {
		case 0:
			head = ""
			fallthrough
		case 1:
			if r.IntN(50) == 0 {
				head = fmt.Sprintf("%0999d", step) // too long to be kept
			}
			truth[key] = head
			k.change(appendFact(nil, factOf(key, head)))
		case 2:
			k.learn(k.turns.Load(), factOf(key, truth[key]))
		}
		got, want := headKnown(k, key), truth[key]
		if want == "" {
			want = "absent"
		}
		if got != "" && got != want {
			t.Fatalf("step %d: %s is known as %q and is %q", step, key, got, want)
		}
		if got != "" {
			hits++
		}
	}
	if hits < 5000 {
		t.Errorf("only %d times something was known", hits)
	}
}
