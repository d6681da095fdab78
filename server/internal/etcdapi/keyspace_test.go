package etcdapi

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
)

// part makes what a sidecar may put in a name: separators, and characters that are escaped, among others.
var part = rapid.StringOfN(rapid.RuneFrom([]rune("ab|%:.é ")), 1, 6, -1)

// anyJob makes a job as Carillon keeps it.
func anyJob(t *rapid.T) *carillon.Job {
	target := &carillon.DaprTarget{AppID: part.Draw(t, "app")}
	if rapid.Bool().Draw(t, "reminder") {
		target.ActorType, target.ActorID = part.Draw(t, "type"), part.Draw(t, "id")
	}
	name := rapid.OneOf(rapid.Just(""), part).Draw(t, "name")
	level := "%00"
	if name != "" {
		level = carillon.EscapeLevel(name)
	}
	return &carillon.Job{Namespace: rapid.SampledFrom([]string{"a", "a-b", "ab"}).Draw(t, "namespace"),
		Name: target.Prefix() + level, Target: carillon.Target{Dapr: target}}
}

// TestScansFindEveryJobOnce: whatever the names begin with in Dapr's keys, the scans find each such job, once.
func TestScansFindEveryJobOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := anyJob(t)
		name := nameOf(job)
		p := name[:rapid.IntRange(0, len(name)).Draw(t, "length")]
		times := 0
		for _, s := range scansOf(p) {
			if (s.namespace == "" || s.namespace == job.Namespace) && strings.HasPrefix(job.Name, s.prefix) {
				times++
			}
		}
		if times != 1 {
			t.Fatalf("%q is found %d times by the beginning %q: %q", job.Name, times, p, scansOf(p))
		}
	})
}

// TestScansAreNarrow: a namespace, an app, an actor are read by themselves.
func TestScansAreNarrow(t *testing.T) {
	for p, want := range map[string][]scan{
		"":                  {{"", "dapr/app/"}, {"", "dapr/actor/"}},
		"app||":             {{"", "dapr/app/"}},
		"actorreminder||ns": {{"", "dapr/actor/"}},
		"app||ns||":         {{"ns", "dapr/app/"}},
		"app||ns||shop||":   {{"ns", "dapr/app/shop/"}, {"ns", "dapr/app/shop|"}},
		"app||ns||shop||x":  {{"ns", "dapr/app/shop/x"}, {"ns", "dapr/app/shop|"}},
		"actorreminder||ns||t||1||": {{"ns", "dapr/actor/t/1/"}, {"ns", "dapr/actor/t/1|"},
			{"ns", "dapr/actor/t|"}},
		"other||ns||": nil,
	} {
		if got := scansOf(p); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", p, got, want)
		}
	}
}

// TestASpanKnowsWhatItsKeysBeginWith: no key of it begins otherwise.
func TestASpanKnowsWhatItsKeysBeginWith(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00\x01ÿ")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		from, end, key := text.Draw(t, "from"), text.Draw(t, "end"), text.Draw(t, "key")
		s := spanOf([]byte(from), []byte(end))
		want := key == from
		if end != "" {
			want = key >= from && (end == toTheEnd || key < end)
		}
		if s.contains(key) != want {
			t.Fatalf("%q in %q: %t", key, s, !want)
		}
		if want && !strings.HasPrefix(key, s.prefix()) {
			t.Fatalf("%q is in %q and does not begin with %q", key, s, s.prefix())
		}
	})
}
