package checker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tiny is a scheduler of a few lines that does everything right: one job after the other, on one owner, with
// workers that fail, hang and leave, an owner that dies, edits, pauses and triggers. What it does is written
// down as a harness would.
type tiny struct {
	*tale
	rng  *rand.Rand
	name string
	gen  uint64
	uid  int
}

func (m *tiny) between(low, high float64) float64 { return low + m.rng.Float64()*(high-low) }

// life lives through one job from its put on.
func (m *tiny) life(overlap, misfire string, step float64, outages []span) {
	now := m.between(0, 5)
	m.uid++
	m.gen = 1
	payload := fmt.Sprintf("p%d", m.rng.IntN(1000))
	retries := m.rng.IntN(3)
	spec := Job{Schedule: fmt.Sprintf("@every %vs", step), Payload: payload, Overlap: overlap,
		Misfire: misfire, Lease: 4 * time.Second, KeepRuns: 10_000,
		Policy: Policy{Kind: "constant", Interval: 500 * time.Millisecond, MaxRetries: &retries}}
	first := now + step
	m.op(Op{Kind: Put, Job: m.name, Spec: &spec,
		Answer: Answer{Generation: 1, UID: m.name, NextRun: sec(first), Created: true, Changed: true}}, now,
		now+0.01)
	pauseAt := 1e9
	if m.rng.IntN(2) == 0 {
		pauseAt = m.between(20, 60)
	}
	free := 0.0 // when the run before was over
	for next := first; next < 180; {
		at := later(sec(next), sec(free))
		for _, o := range outages {
			if !at.Before(o.from) && at.Before(o.to) {
				at = o.to.Add(time.Duration(m.between(0.05, 0.8) * float64(time.Second)))
			}
		}
		begun := at.Sub(start).Seconds() + m.between(0, 0.2)
		if next > pauseAt || begun > pauseAt {
			next, pauseAt = m.pause(next, max(pauseAt, free), step), 1e9
			free = 0
			continue
		}
		run, skipTo := next, next
		if newest := first + float64(int((begun-first)/step+1e-9))*step; newest > next+step/2 {
			run, skipTo = m.passOver(next, newest, step, begun, free, overlap, misfire)
		}
		if run >= 0 {
			free = m.run(run, begun, retries, payload, outages)
		}
		next = skipTo + step
	}
	f := m.is(m.name)
	f.UID, f.Payload = m.name, payload
}

// passOver applies the rules to several due times; it returns the one that runs, and the last that is dealt
// with.
func (m *tiny) passOver(next, newest, step, begun, free float64,
	overlap, misfire string) (run, dealt float64) {
	n := func(from, to float64) uint64 { return uint64((to-from)/step+0.5) + 1 }
	switch {
	case overlap == "skip" && free > next: // it was going on when they came
		last := next + float64(int((free-next)/step))*step
		m.skipped(m.name, "overlap", next, last, n(next, last), free)
		return -1, last
	case misfire == "all":
		return next, next
	case misfire == "skip" && begun-newest > 5:
		m.skipped(m.name, "misfire", next, newest, n(next, newest), begun)
		return -1, newest
	}
	m.skipped(m.name, "misfire", next, newest-step, n(next, newest-step), begun)
	return newest, newest
}

// pause pauses the job for a while; it returns the first time that runs again.
func (m *tiny) pause(next, at, step float64) float64 {
	to := at + m.between(1, 30)
	m.op(Op{Kind: Pause, Job: m.name}, at, at+0.02)
	if m.rng.IntN(3) == 0 {
		m.op(Op{Kind: Resume, Job: m.name, Outcome: Info}, to-0.5, to-0.4) // it did nothing
	}
	m.op(Op{Kind: Resume, Job: m.name}, to, to+0.02)
	if next > to {
		return next
	}
	last := next + float64(int((to-next)/step))*step
	m.skipped(m.name, "paused", next, last, uint64((last-next)/step+0.5)+1, to+0.01)
	return last + step
}

// run attempts a run until it succeeds or is exhausted, and returns when it was over.
func (m *tiny) run(scheduled, at float64, retries int, payload string, outages []span) float64 {
	for number := 1; ; number++ {
		a := m.attempt(m.name, scheduled, at, number)
		a.Payload = payload
		end := at + m.between(0.01, 1.5)
		crossed := slices.ContainsFunc(outages,
			func(o span) bool { return !o.to.Before(sec(at)) && !o.from.After(sec(end+0.1)) })
		switch x := m.rng.IntN(10); {
		case crossed || x == 0: // the worker hangs, or its result is lost: the lease ends
			m.said(LostWorker, end)
			end = at + 4.01
		case x < 3:
			m.said(Failure, end)
			end += 0.51
		default:
			m.said(Success, end)
			if m.rng.IntN(5) == 0 {
				m.said(Success, end+0.05) // said again
			}
			if m.rng.IntN(5) == 0 {
				m.said(Fabricated, end-0.005).Token = "made up"
			}
			m.ended(m.name, "succeeded", scheduled, end+0.01)
			return end + 0.02
		}
		if number > retries {
			m.ended(m.name, "failed", scheduled, end)
			return end
		}
		at = end
		for _, o := range outages {
			if !sec(at).Before(o.from) && sec(at).Before(o.to) {
				at = o.to.Sub(start).Seconds() + 0.1
			}
		}
	}
}

// lawful is a history of a tiny scheduler.
func lawful(seed uint64, jobs int) *tale {
	t := newTale()
	t.Healed, t.End, t.Seed = sec(100), sec(180), seed
	rng := rand.New(rand.NewPCG(seed, 7))
	m := &tiny{tale: t, rng: rng}
	var outages []span
	for at := 10.0; at < 90; at += m.between(10, 40) {
		to := at + m.between(0.5, 9)
		outages = append(outages, span{sec(at), sec(to)})
		t.Faults = append(t.Faults, Fault{Kind: "kill", From: sec(at), To: sec(to)})
		at = to
	}
	for i := range jobs {
		m.name = fmt.Sprintf("job%d", i)
		m.life([]string{"serial", "skip"}[rng.IntN(2)], []string{"latest", "all", "skip"}[rng.IntN(3)],
			float64(2+rng.IntN(8)), outages)
	}
	return t
}

// TestNoFalseAlarm: whatever a scheduler that does everything right goes through, nothing is found.
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := lawful(rapid.Uint64().Draw(t, "seed"), 4)
		v := Check(h.History, Spec{})
		if v.Result != Passed {
			t.Fatalf("%v", v)
		}
		if v.Counters.Musts < 20 {
			t.Fatalf("only %d times had to run: the test shows nothing", v.Counters.Musts)
		}
	})
}

// TestDamageIsFound: any attempt of a calm time that is taken out of a legal history is missed, and any that
// is moved before its time is too early.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := lawful(rapid.Uint64().Draw(t, "seed"), 3)
		var calm []int
		for i, a := range h.Attempts {
			if a.Scheduled.After(sec(125)) && a.At.Before(sec(165)) && a.Number == 1 {
				calm = append(calm, i)
			}
		}
		if len(calm) == 0 {
			t.Skip()
		}
		i := rapid.SampledFrom(calm).Draw(t, "attempt")
		h.Attempts[i].At = h.Attempts[i].Scheduled.Add(-1)
		if v := Check(h.History, Spec{}); v.Result != Failed {
			t.Fatalf("begun too early: %v", v)
		}
		id := h.Attempts[i].RunID
		h.drop(id)
		h.Final.Runs = slices.DeleteFunc(h.Final.Runs, func(r FinalRun) bool { return r.RunID == id })
		v := Check(h.History, Spec{})
		if !slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Invariant == "S3" }) {
			t.Fatalf("%s is missing: %v", id, v)
		}
	})
}

// TestMatch holds the greedy matching against trying everything.
func TestMatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var windows []span
		for range rapid.IntRange(0, 6).Draw(t, "windows") {
			from := rapid.IntRange(0, 12).Draw(t, "from")
			windows = append(windows, span{sec(float64(from)),
				sec(float64(from + rapid.IntRange(0, 6).Draw(t, "length")))})
		}
		var points []time.Time
		for range rapid.IntRange(0, 7).Draw(t, "points") {
			points = append(points, sec(float64(rapid.IntRange(0, 18).Draw(t, "point"))))
		}
		unmatched, extras := match(windows, points)
		best := most(windows, points)
		if len(windows)-len(unmatched) != best || extras != len(points)-best {
			t.Fatalf("%d of %d matched and %d left over, %d can be: %v %v", len(windows)-len(unmatched),
				len(windows), extras, best, windows, points)
		}
	})
}

// most is the most windows that can have a point of their own.
func most(windows []span, points []time.Time) int {
	if len(windows) == 0 {
		return 0
	}
	best := most(windows[1:], points)
	for i, p := range points {
		if !p.Before(windows[0].from) && !p.After(windows[0].to) {
			best = max(best, 1+most(windows[1:], slices.Delete(slices.Clone(points), i, i+1)))
		}
	}
	return best
}

// TestHistoryIsWrittenAndRead: what is read back is judged the same.
func TestHistoryIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	h := lawful(3, 3).History
	var file bytes.Buffer
	if err := h.Encode(&file); err != nil {
		t.Fatal(err)
	}
	back, err := Decode(&file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(h, back) {
		t.Error("the history has changed on its way to the file and back")
	}
	if a, b := Check(h, Spec{}), Check(back, Spec{}); a.String() != b.String() {
		t.Errorf("judged %v and then %v", a, b)
	}
	if _, err := Decode(strings.NewReader(`{"Tries": []}`)); err == nil {
		t.Error("a field that does not exist was read")
	}
}

func TestVerdictIsWritten(t *testing.T) {
	t.Parallel()
	h := lawful(3, 3).History
	h.Attempts = h.Attempts[:len(h.Attempts)-1]
	h.Ops[0].Job = "<b>job0</b>"
	v := Check(h, Spec{MinEpochs: 1, Faults: []string{"kill", "flood"}})
	if v.Result != Failed || len(v.Vacuous) != 2 {
		t.Fatalf("%v", v)
	}
	var file, page bytes.Buffer
	if err := v.WriteJSON(&file); err != nil {
		t.Fatal(err)
	}
	var back Verdict
	if err := json.Unmarshal(file.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Result != Failed || len(back.Violations) != len(v.Violations) || back.Coverage["kill"] == 0 {
		t.Errorf("read back: %v", back)
	}
	if err := WriteTimeline(&page, h, v); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, `class="fault"`); n != len(h.Faults) {
		t.Errorf("%d faults are drawn, want %d", n, len(h.Faults))
	}
	bars := 0
	for _, kind := range []string{"success", "failure", "lost", "fabricated"} {
		bars += strings.Count(text, `<rect class="`+kind+`"`)
	}
	if bars != len(h.Attempts) || !strings.Contains(text, `class="met"`) ||
		!strings.Contains(text, `class="unmet"`) {
		t.Errorf("%d attempts are drawn, want %d, and windows of both kinds", bars, len(h.Attempts))
	}
	if strings.Contains(text, "<b>job0") || strings.Contains(text, "<script") || strings.Contains(text, "http") {
		t.Error("the page has something that it must not")
	}
}

// TestTooLittleIsUnknown: nothing was violated, and nothing was shown.
func TestTooLittleIsUnknown(t *testing.T) {
	t.Parallel()
	if v := Check(newTale().History, Spec{}); v.Result != Unknown {
		t.Errorf("an empty history: %v", v)
	}
	h := steady("a").History
	for _, s := range []Spec{{MinStarts: 6}, {MinEpochs: 1}, {MinStaleRefused: 1}, {MinInfoApplied: 1},
		{MinInfoNot: 1}, {Faults: []string{"kill"}}, {MustEverywhere: true}} {
		if v := Check(h, s); v.Result != Unknown || len(v.Vacuous) == 0 {
			t.Errorf("%+v: %v", s, v)
		}
	}
	if v := Check(batch().History, Spec{MinInfoApplied: 2}); v.Result != Passed {
		t.Errorf("two unknown puts were applied: %v", v)
	}
}

// TestCheckIsPure: the same history is judged the same, and is not changed.
func TestCheckIsPure(t *testing.T) {
	t.Parallel()
	h, same := lawful(5, 4).History, lawful(5, 4).History
	h.Attempts, same.Attempts = h.Attempts[:len(h.Attempts)-3], same.Attempts[:len(same.Attempts)-3]
	a, b := Check(h, Spec{}), Check(h, Spec{})
	if a.Result != Failed || !reflect.DeepEqual(a.Violations, b.Violations) || !reflect.DeepEqual(h, same) {
		t.Errorf("first %v, then %v", a, b)
	}
}
