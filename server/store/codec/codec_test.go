package codec

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

func sampleJob() carillon.Job {
	return carillon.Job{
		Namespace:     "default",
		Name:          "reports/nightly",
		Schedule:      "0 0 2 * * *",
		TimeZone:      "Europe/Berlin",
		Data:          carillon.Bytes([]byte(`{"report":"nightly","tenant":42}`), carillon.ContentTypeJSON),
		Labels:        map[string]string{"team": "billing", "env": "prod"},
		Target:        carillon.HTTP("https://reports.example.com/run"),
		FailurePolicy: carillon.Constant(5 * time.Second).WithMaxRetries(3),
		Timeout:       30 * time.Second,
	}
}

func sampleState() store.State {
	at := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC).UnixNano()
	return store.State{
		UID: store.NewUID(carillon.Key{Namespace: "default", Name: "reports/nightly"},
			[8]byte{1, 2, 3}), Generation: 3,
		Created: at - 1e15, Updated: at - 1e9, Phase: carillon.PhaseRunning, Priority: 2, Due: at + 120e9,
		Anchor: at - 1e14, Next: at + 86400e9, Begun: 41,
		Run: store.RunState{Live: true, Scheduled: at, Due: at, Attempt: 1, Lease: at + 120e9,
			Deadline: at + 300e9, Started: at, Grant: store.Grant{Term: store.Term{Epoch: 7,
				Nonce: 0xfeedfacecafebeef}, Generation: 3}},
		Last: store.LastRun{Scheduled: at - 86400e9, Finished: at - 86399e9, Attempt: 1,
			Status: carillon.RunSucceeded},
		Counters: carillon.Counters{Fired: 41, Succeeded: 39, Failed: 4, Retried: 3},
		Kept:     20,
	}
}

func sampleRun() store.RunRecord {
	s := sampleState()
	return store.RunRecord{
		Key: carillon.Key{Namespace: "default", Name: "reports/nightly"}, ID: s.Identity(17), Grant: s.Run.Grant,
		Status: carillon.RunSucceeded, Due: s.Run.Due, Started: s.Run.Started,
		Finished: s.Run.Started + 1e9, Attempt: 1, Worker: "worker-7", Queue: "default\x00worker\x00reports",
	}
}

// Every zero value is an empty message and comes back as itself.
func TestZeroValues(t *testing.T) {
	if b := EncodeSpec(&carillon.Job{}); b == nil || len(b) != 0 {
		t.Errorf("spec of the zero job = %#v, want empty and not nil", b)
	}
	if b := AppendState(nil, new(store.State)); len(b) != 0 {
		t.Errorf("zero state = %x", b)
	}
	job, err := DecodeSpec(nil, carillon.Key{Namespace: "n", Name: "x"})
	if want := (carillon.Job{Namespace: "n", Name: "x"}); err != nil || !reflect.DeepEqual(job, want) {
		t.Errorf("DecodeSpec(nil) = %+v, %v", job, err)
	}
	run, err := DecodeRun(AppendRun(nil, new(store.RunRecord)))
	if err != nil || !reflect.DeepEqual(run, store.RunRecord{}) {
		t.Errorf("zero run = %+v, %v", run, err)
	}
}

// What a zero says is kept apart from what nothing says.
func TestPresence(t *testing.T) {
	for _, want := range []carillon.Job{
		{FailurePolicy: carillon.Exponential(0).WithMaxRetries(0)},
		{FailurePolicy: carillon.FailurePolicy{}.WithMaxRetries(math.MaxUint32)},
		{Target: carillon.WorkerQueue("")},
		{Target: carillon.Target{Exec: &carillon.ExecTarget{Args: []string{"", "a", ""}}}},
		{Labels: map[string]string{"": "", "a": ""}},
		{History: carillon.History{Runs: -1}},
		{Timeout: math.MinInt64, Lease: math.MaxInt64},
	} {
		got, err := DecodeSpec(EncodeSpec(&want), carillon.Key{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
	}
}

// Equal jobs have equal bytes, whatever the order in which their maps were filled; nil and empty are equal.
func TestSpecIsDeterministic(t *testing.T) {
	job := sampleJob()
	job.Metadata = map[string]string{}
	for i := range 40 {
		job.Metadata[fmt.Sprint("key", i)] = fmt.Sprint(i)
	}
	want := EncodeSpec(&job)
	for range 20 {
		again := job
		again.Metadata = make(map[string]string)
		for _, k := range slices.Backward(slices.Collect(maps.Keys(job.Metadata))) {
			again.Metadata[k] = job.Metadata[k]
		}
		if !bytes.Equal(EncodeSpec(&again), want) {
			t.Fatal("equal jobs, different bytes")
		}
	}
	none, empty := carillon.Job{}, carillon.Job{Labels: map[string]string{}, DependsOn: []string{},
		Data: carillon.Bytes([]byte{}, "")}
	if !bytes.Equal(EncodeSpec(&none), EncodeSpec(&empty)) {
		t.Error("an empty map, list or payload is not the same as none")
	}
}

// Messages of every length around the limits of the length's own length.
func TestLongMessages(t *testing.T) {
	for _, n := range []int{0, 1, 100, 120, 121, 122, 123, 124, 125, 126, 127, 128, 16370, 16380,
		16384, 1 << 21} {
		want := carillon.Job{Target: carillon.HTTP(string(bytes.Repeat([]byte{'x'}, n))), Note: "after it"}
		got, err := DecodeSpec(EncodeSpec(&want), carillon.Key{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("target of %d bytes: %v", n, err)
		}
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	s, r := sampleState(), sampleRun()
	if b := AppendState([]byte("head"), &s); !bytes.HasPrefix(b, []byte("head")) ||
		!bytes.Equal(b[4:], AppendState(nil, &s)) {
		t.Error("AppendState does not append")
	}
	if b := AppendRun([]byte("head"), &r); !bytes.HasPrefix(b, []byte("head")) ||
		!bytes.Equal(b[4:], AppendRun(nil, &r)) {
		t.Error("AppendRun does not append")
	}
}

// A field that a later version added is skipped, whatever its type, on every level.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	c := coder{writing: true}
	number, text := uint64(7), "later"
	unsigned(&c, 1000, &number)
	c.nonce(1001, &number)
	c.string(1002, &text)
	c.tag(1003, wire32)
	c.b = append(c.b, 1, 2, 3, 4)
	later := c.b

	job, state, run := sampleJob(), sampleState(), sampleRun()
	spec := append(slices.Clone(later), EncodeSpec(&job)...)
	if got, err := DecodeSpec(append(spec, later...), job.Key()); err != nil || !reflect.DeepEqual(got, job) {
		t.Errorf("spec: %v", err)
	}
	if got, err := DecodeState(append(AppendState(slices.Clone(later), &state), later...)); err != nil ||
		!reflect.DeepEqual(got, state) {
		t.Errorf("state: %v", err)
	}
	if got, err := DecodeRun(append(AppendRun(slices.Clone(later), &run), later...)); err != nil ||
		!reflect.DeepEqual(got, run) {
		t.Errorf("run: %v", err)
	}
	nested := append([]byte{1<<3 | wireBytes, byte(len(later))}, later...)
	for name, read := range map[string]func(c *coder){
		"target": func(c *coder) { c.target(1, new(carillon.Target)) },
		"http":   func(c *coder) { c.http(1, new(carillon.HTTPTarget)) },
		"exec":   func(c *coder) { c.exec(1, new(carillon.ExecTarget)) },
		"texts":  func(c *coder) { c.texts(1) },
		"policy": func(c *coder) { c.failurePolicy(1, new(carillon.FailurePolicy)) },
		"hist":   func(c *coder) { c.history(1, new(carillon.History)) },
		"run":    func(c *coder) { c.runState(1, new(store.RunState)) },
		"grant":  func(c *coder) { c.grant(1, new(store.Grant)) },
		"last":   func(c *coder) { c.lastRun(1, new(store.LastRun)) },
		"counts": func(c *coder) { c.counters(1, new(carillon.Counters)) },
		"id":     func(c *coder) { c.identity(1, new(store.RunID)) },
		"errors": func(c *coder) { c.attemptErrors(1, new([]carillon.AttemptError)) },
		"waits":  func(c *coder) { c.waits(1, new([]store.Wait)) },
		"limits": func(c *coder) { c.limits(1, new(map[string]int)) },
		"labels": func(c *coder) { c.stringMap(1, new(map[string]string)) },
	} {
		c, rounds := coder{b: nested}, 0
		for at := message(0); c.within(&at); rounds++ {
			read(&c)
		}
		if c.err != nil || rounds != 1 {
			t.Errorf("%s: %v in %d rounds", name, c.err, rounds)
		}
	}
}

// Fields may come in any order, and more than once: of one the last counts, lists and messages go on.
func TestFieldsInAnyOrder(t *testing.T) {
	c := coder{writing: true}
	for _, s := range []store.State{
		{Settled: 7, Waits: []store.Wait{{Name: "a"}}},
		{Queue: "first", Run: store.RunState{Seq: 3}, Created: 1},
		{Queue: "last", Waits: []store.Wait{{Name: "b"}, {Name: "c"}}, Run: store.RunState{Attempt: 2}},
		{Created: 5},
	} {
		c.state(&s)
	}
	want := store.State{Settled: 7, Created: 5, Queue: "last", Run: store.RunState{Seq: 3, Attempt: 2},
		Waits: []store.Wait{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	if got, err := DecodeState(c.b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	spec := slices.Concat(EncodeSpec(&carillon.Job{Target: carillon.HTTP("http://x"), Note: "n"}),
		EncodeSpec(&carillon.Job{Schedule: "@daily", Target: carillon.WorkerQueue("q"), Labels: map[string]string{"a": "1"}}),
		EncodeSpec(&carillon.Job{Labels: map[string]string{"b": "2"}}))
	job := carillon.Job{Schedule: "@daily", Note: "n", Target: carillon.WorkerQueue("q"),
		Labels: map[string]string{"a": "1", "b": "2"}}
	if got, err := DecodeSpec(spec, carillon.Key{}); err != nil || !reflect.DeepEqual(got, job) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, job)
	}
}

// Damage is an error, never a panic, and says where it is.
func TestDamage(t *testing.T) {
	job, state, run := sampleJob(), sampleState(), sampleRun()
	state.Queue, run.Response = "q", []byte("answer")
	decoders := map[string]func(b []byte) error{
		"spec":  func(b []byte) error { _, err := DecodeSpec(b, job.Key()); return err },
		"state": func(b []byte) error { _, err := DecodeState(b); return err },
		"run":   func(b []byte) error { _, err := DecodeRun(b); return err },
	}
	whole := map[string][]byte{"spec": EncodeSpec(&job), "state": AppendState(nil, &state),
		"run": AppendRun(nil, &run)}
	for name, decode := range decoders {
		for i := range whole[name] {
			if err := decode(whole[name][:i]); err != nil && !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%s cut at %d: %v", name, i, err)
			}
		}
		for _, bad := range [][]byte{{0}, {0x08}, {0x0a, 0x05, 1}, {0x0b}, {0x0c}, {0x0f},
			{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
			bytes.Repeat([]byte{0xff}, 11), {0xf8, 0xff, 0xff, 0xff, 0xff, 1, 0}} {
			if err := decode(bad); !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%s %x: %v, want ErrDamaged", name, bad, err)
			}
		}
	}
	for name, bad := range map[string][]byte{"uid of 3 bytes": {0x0a, 3, 1, 2, 3},
		"phase 256": {5 << 3, 0x80, 2}, "wrong type": {0x0d, 1, 2, 3, 4}} {
		if _, err := DecodeState(bad); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLabels(t *testing.T) {
	job := sampleJob()
	job.Labels["empty"] = ""
	job.Metadata = map[string]string{"meta": "data"}
	spec := EncodeSpec(&job)
	if got := SpecLabels(spec); !reflect.DeepEqual(got, job.Labels) {
		t.Errorf("SpecLabels = %v, want %v", got, job.Labels)
	}
	for label, want := range map[string]bool{"": true, "team": true, "team=billing": true, "team=": false,
		"team=bill": false, "tea": false, "meta": false, "empty": true, "empty=": true, "empty=x": false,
		"billing": false} {
		if got := MatchLabel(spec, label); got != want {
			t.Errorf("MatchLabel(%q) = %v, want %v", label, got, want)
		}
	}
	if MatchLabel(append(spec, 0x0a), "team") || SpecLabels(append(spec, 0x0a)) != nil {
		t.Error("a damaged spec has labels")
	}
	if SpecLabels(nil) != nil {
		t.Error("no spec has labels")
	}
}

// A job's payload aliases the spec; everything else does not alias what it was read from.
func TestAliasing(t *testing.T) {
	job, state, run := sampleJob(), sampleState(), sampleRun()
	state.Queue, state.Run.Errors = "queue", []carillon.AttemptError{{Attempt: 1, Message: "no"}}
	spec, sb, rb := EncodeSpec(&job), AppendState(nil, &state), AppendRun(nil, &run)
	gotJob, _ := DecodeSpec(spec, job.Key())
	gotState, _ := DecodeState(sb)
	gotRun, _ := DecodeRun(rb)
	for _, b := range [][]byte{spec, sb, rb} {
		clear(b)
	}
	if !bytes.Equal(gotJob.Data.Bytes, make([]byte, len(job.Data.Bytes))) {
		t.Error("the payload was copied")
	}
	gotJob.Data = job.Data
	if !reflect.DeepEqual(gotJob, job) || !reflect.DeepEqual(gotState, state) ||
		!reflect.DeepEqual(gotRun, run) {
		t.Error("something else than the payload aliases the bytes")
	}
}

func TestPreallocation(t *testing.T) {
	job, state := sampleJob(), sampleState()
	if n := testing.AllocsPerRun(100, func() { EncodeSpec(&job) }); n > 1 {
		t.Errorf("EncodeSpec allocates %v times", n)
	}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = AppendState(buf[:0], &state) }); n != 0 {
		t.Errorf("AppendState allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = DecodeState(buf) }); n != 0 {
		t.Errorf("DecodeState allocates %v times", n)
	}
	spec := EncodeSpec(&job)
	if n := testing.AllocsPerRun(100, func() { MatchLabel(spec, "team=billing") }); n != 0 {
		t.Errorf("MatchLabel allocates %v times", n)
	}
}

// TestStatePhase reads the phase alone, wherever it stands, and nothing of what is damaged.
func TestStatePhase(t *testing.T) {
	for phase := carillon.PhaseScheduled; phase <= carillon.PhaseWaiting; phase++ {
		s := sampleState()
		s.Phase = phase
		b := AppendState(nil, &s)
		if got, err := StatePhase(b); err != nil || got != phase {
			t.Errorf("phase %v is read as %v, %v", phase, got, err)
		}
		if _, err := StatePhase(b[:len(b)-1]); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("of a state that is cut off: %v", err)
		}
	}
}
