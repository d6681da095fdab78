package partition_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// The tables of docs/api.md on what a patch does, read from that page.
type patchTable struct {
	groups map[string]string                       // field → what a patch that names it names
	cells  map[string]map[string]map[string]string // group → kind of job, or "any" → phase → what happens
}

// rowsAfter returns the cells of the table under a heading of the page, without its header.
func rowsAfter(t *testing.T, page, heading string) (rows [][]string) {
	t.Helper()
	_, rest, found := strings.Cut(page, heading)
	if !found {
		t.Fatalf("the page has no table that begins with %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	for _, line := range strings.Split(strings.TrimSpace(rest), "\n")[1:] {
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	return rows
}

func readPatchTable(t *testing.T) patchTable {
	t.Helper()
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	table := patchTable{groups: map[string]string{}, cells: map[string]map[string]map[string]string{}}
	for _, row := range rowsAfter(t, string(page), "| it names | fields |\n") {
		for field := range strings.SplitSeq(row[1], ", ") {
			table.groups[strings.Trim(field, "`")] = row[0]
		}
	}
	phases := []string{"scheduled", "running", "retrying", "staged", "paused"}
	for _, row := range rowsAfter(t, string(page), "| it names | job | "+strings.Join(phases, " | ")+" |\n") {
		if table.cells[row[0]] == nil {
			table.cells[row[0]] = map[string]map[string]string{}
		}
		cells := map[string]string{}
		for i, phase := range phases {
			cells[phase] = row[2+i]
		}
		table.cells[row[0]][row[1]] = cells
	}
	return table
}

// cell returns what the table says of a patch of the field, for a recurring job or a one-shot.
func (p *patchTable) cell(field, phase string, recurring bool) string {
	phase, _, _ = strings.Cut(phase, ",")
	rows := p.cells[p.groups[field]]
	if cells, ok := rows["any"]; ok {
		return cells[phase]
	}
	return rows[map[bool]string{true: "recurring", false: "one-shot"}[recurring]][phase]
}

// TestThePatchTableHasEachField compares the table with the fields in the code.
func TestThePatchTableHasEachField(t *testing.T) {
	table := readPatchTable(t)
	effects := map[string]plan.Effect{
		"nothing that matters": plan.EffectNone, "the pause": plan.EffectNone, "content": plan.EffectFence,
		"which times run": plan.EffectNext, "the times": plan.EffectTimes,
	}
	fields := carillon.PatchFields()
	for _, f := range fields {
		if want := effects[table.groups[f]]; want == 0 || plan.EffectOf(f) != want {
			t.Errorf("%s: the table says %q, the code %d", f, table.groups[f], plan.EffectOf(f))
		}
	}
	if len(table.groups) != len(fields) {
		t.Errorf("the table has %d fields, a patch %d", len(table.groups), len(fields))
	}
}

// patchKinds are the jobs that are patched.
var patchKinds = map[string]carillon.Job{
	"one-shot, relative": {Name: "a", Due: carillon.In(10 * time.Second),
		FailurePolicy: carillon.Constant(time.Minute)},
	"one-shot, absolute": {Name: "a", Due: carillon.At(time.Unix(0, epoch+10e9)),
		FailurePolicy: carillon.Constant(time.Minute)},
	"recurring":       {Name: "a", Schedule: "@every 10s", FailurePolicy: carillon.Constant(time.Minute)},
	"recurring, cron": {Name: "a", Schedule: "*/10 * * * * *", FailurePolicy: carillon.Constant(time.Minute)},
}

// patchPhases bring the job into the phase in which it is patched.
var patchPhases = map[string]func(r *rig, j carillon.Job){
	"scheduled": func(r *rig, j carillon.Job) { r.mustPut(j); r.advance(3 * time.Second) },
	"running": func(r *rig, j carillon.Job) { // long enough for the attempt to be stored
		r.mustPut(j)
		r.advance(10 * time.Second)
		r.deliver(1)
		r.advance(2 * time.Second)
	},
	"running, since just now": func(r *rig, j carillon.Job) {
		r.mustPut(j)
		r.advance(10 * time.Second)
		r.deliver(1)
	},
	"retrying": func(r *rig, j carillon.Job) {
		r.mustPut(j)
		r.advance(10 * time.Second)
		r.failRun(r.deliver(1)[0])
		r.advance(2 * time.Second)
	},
	"staged": func(r *rig, j carillon.Job) {
		r.mustPut(j)
		r.advance(10 * time.Second)
		r.m.Window.Stage(queueQ, r.now, 1)
		r.advance(2 * time.Second)
	},
	"paused": func(r *rig, j carillon.Job) { j.Paused = true; r.mustPut(j); r.advance(3 * time.Second) },
}

// otherwise returns, by field, jobs of which that one field differs from all of patchKinds.
var otherwise = map[string]func(old *carillon.Job) carillon.Job{
	"schedule": func(old *carillon.Job) carillon.Job {
		if strings.HasPrefix(old.Schedule, "*") {
			return carillon.Job{} // from now on a one-shot
		}
		return carillon.Job{Schedule: "@every 7s"}
	},
	"time_zone": func(*carillon.Job) carillon.Job { return carillon.Job{TimeZone: "Europe/London"} },
	"dst": func(*carillon.Job) carillon.Job {
		return carillon.Job{Calendars: carillon.CalendarRules{DST: carillon.DSTLiteral}}
	},
	"due_time": func(*carillon.Job) carillon.Job {
		return carillon.Job{Due: carillon.In(33 * time.Second)}
	},
	"repeats": func(*carillon.Job) carillon.Job { return carillon.Job{Repeats: 3} },
	"ttl":     func(*carillon.Job) carillon.Job { return carillon.Job{TTL: carillon.In(time.Hour)} },
	"jitter":  func(*carillon.Job) carillon.Job { return carillon.Job{Jitter: time.Millisecond} },
	"data":    func(*carillon.Job) carillon.Job { return carillon.Job{Data: carillon.JSON("other")} },
	"payload": func(*carillon.Job) carillon.Job {
		return carillon.Job{Data: carillon.Data{Ref: &carillon.PayloadRef{Day: 1, Size: 1}}}
	},
	"content_type": func(*carillon.Job) carillon.Job {
		return carillon.Job{Data: carillon.Data{ContentType: "text/csv"}}
	},
	"metadata": func(*carillon.Job) carillon.Job {
		return carillon.Job{Metadata: map[string]string{"k": "v"}}
	},
	"labels": func(*carillon.Job) carillon.Job {
		return carillon.Job{Labels: map[string]string{"k": "v"}}
	},
	"target": func(*carillon.Job) carillon.Job {
		return carillon.Job{Target: carillon.WorkerQueue("r")}
	},
	"failure_policy": func(*carillon.Job) carillon.Job {
		return carillon.Job{FailurePolicy: carillon.Constant(time.Hour)}
	},
	"timeout": func(*carillon.Job) carillon.Job { return carillon.Job{Timeout: time.Hour} },
	"lease":   func(*carillon.Job) carillon.Job { return carillon.Job{Lease: time.Hour} },
	"overlap": func(*carillon.Job) carillon.Job { return carillon.Job{Overlap: carillon.OverlapSkip} },
	"misfire": func(*carillon.Job) carillon.Job {
		return carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll}}
	},
	"catch_up_limit": func(*carillon.Job) carillon.Job {
		return carillon.Job{Misfire: carillon.Misfire{Limit: 7}}
	},
	"catch_up_window": func(*carillon.Job) carillon.Job {
		return carillon.Job{Misfire: carillon.Misfire{Window: time.Hour}}
	},
	"priority":        func(*carillon.Job) carillon.Job { return carillon.Job{Priority: carillon.PriorityHigh} },
	"concurrency_key": func(*carillon.Job) carillon.Job { return carillon.Job{ConcurrencyKey: "k"} },
	"depends_on":      func(*carillon.Job) carillon.Job { return carillon.Job{DependsOn: []string{"b"}} },
	"except": func(*carillon.Job) carillon.Job {
		return carillon.Job{Calendars: carillon.CalendarRules{Except: []string{"a"}}}
	},
	"only": func(*carillon.Job) carillon.Job {
		return carillon.Job{Calendars: carillon.CalendarRules{Only: []string{"a"}}}
	},
	"paused": func(old *carillon.Job) carillon.Job { return carillon.Job{Paused: !old.Paused} },
	"note":   func(*carillon.Job) carillon.Job { return carillon.Job{Note: "other"} },
	"history": func(*carillon.Job) carillon.Job {
		return carillon.Job{History: carillon.History{Runs: 7}}
	},
}

// ofSchedules are the fields that have no effect on a one-shot; it is refused with them.
var ofSchedules = []string{"repeats", "time_zone", "dst", "except", "only", "overlap", "misfire", "catch_up_limit",
	"catch_up_window"}

// stored returns the job as the store has it.
func (r *rig) stored() store.Record { return r.read([]store.Ref{{Key: keyA}})[0] }

// TestAPatchDoesWhatTheTableSays patches each field of a job, with its present value and with another, in
// every phase of its run.
func TestAPatchDoesWhatTheTableSays(t *testing.T) {
	table := readPatchTable(t)
	for _, field := range append(carillon.PatchFields(), "") {
		for kind := range patchKinds {
			for phase := range patchPhases {
				for _, changed := range []bool{true, false} {
					name := strings.Join([]string{field, kind, phase,
						map[bool]string{true: "another", false: "the same"}[changed]}, ", ")
					t.Run(name, func(t *testing.T) { walkPatch(t, &table, field, kind, phase, changed && field != "") })
				}
			}
		}
	}
}

// walkPatch makes one patch and checks the job afterwards.
func walkPatch(t *testing.T, table *patchTable, field, kind, phase string, changed bool) {
	r := newRig(t, partition.Config{})
	patchPhases[phase](r, patchKinds[kind])
	r.bring(keyA)
	old, err := r.m.Records.Job(keyA)
	if err != nil {
		t.Fatal(err)
	}
	p := carillon.Patch{Job: old}
	if field != "" {
		p.Fields = []string{field}
	}
	if changed {
		p.Job = otherwise[field](&old)
	}
	if field == "schedule" && p.Job.Schedule == "" && old.Recurring() { // it has to say when the job is to run
		p.Fields, p.Job.Due = append(p.Fields, "due_time"), carillon.In(0)
	}
	before := r.stored()
	r.cancels = nil
	r.bring(keyA)
	put, err := r.m.Jobs.Patch(r.now, 0, keyA, p, "")
	refused := changed && slices.Contains(ofSchedules, field) && !old.Recurring()
	if refused != (err != nil) {
		t.Fatal(err)
	} else if refused {
		put.Job, changed = old, false
	}
	r.flush()
	w := patched{rig: r, t: t, before: before, after: r.stored(), put: put}
	rearmed := !refused && kind == "one-shot, relative" && table.groups[field] == "the times"
	if !changed && !rearmed {
		w.untouched()
		return
	}
	if strings.Contains(phase, "just now") { // the store does not know of the attempt yet
		d := r.attempts[0].Run
		tok, err := message.ParseToken(d.Token, r.store.Meta().MACKey)
		if err != nil {
			t.Fatal(err)
		}
		w.before.State.Phase, w.before.State.Run = carillon.PhaseRunning, store.RunState{Live: true,
			Scheduled: d.Scheduled.UnixNano(),
			Due:       d.Due.UnixNano(), Attempt: d.Attempt, Started: d.Started.UnixNano(), Grant: tok.Grant}
	}
	if generation := before.State.Generation +
		1; (field != "paused") != (put.Job.Status.Generation == generation) || !put.Changed {
		t.Errorf("generation %d of %d, changed %v", put.Job.Status.Generation, generation, put.Changed)
	}
	for word := range strings.SplitSeq(table.cell(field, phase, put.Job.Recurring()), ", ") {
		check := patchWords[word]
		if check == nil {
			t.Fatalf("the table says %q of it, which means nothing", word)
		}
		check(&w)
	}
	r.start() // and all of it has been written
	if again := r.stored(); !slices.Equal(again.Spec, w.after.Spec) || again.State.Next != w.after.State.Next {
		t.Errorf("stored %+v, was %+v", again.State, w.after.State)
	}
}

// patched is a job that has been patched.
type patched struct {
	*rig
	t             *testing.T
	before, after store.Record
	put           carillon.PutResult
}

// untouched checks that nothing has happened except that time has passed.
func (p *patched) untouched() {
	a, b := p.before.State, p.after.State
	if p.put.Changed || p.put.Job.Status.Generation != a.Generation ||
		!slices.Equal(p.before.Spec, p.after.Spec) || a.Updated != b.Updated ||
		a.Next != b.Next || a.Anchor != b.Anchor || a.Run.Grant != b.Run.Grant ||
		a.Run.Attempt != b.Run.Attempt || a.Run.Due != b.Run.Due ||
		a.Counters != b.Counters || len(p.cancels) > 0 {
		p.t.Errorf("a patch that changes nothing made %+v of %+v, told %v", b, a, p.cancels)
	}
	if d := p.attempts; len(d) > 0 && a.Phase != carillon.PhaseRetrying &&
		p.succeed(d[0]) != partition.Accepted {
		p.t.Error("the result of the attempt in force is refused")
	}
}

// sameRun checks that the unfinished run is the same as before.
func (p *patched) sameRun() {
	p.t.Helper()
	a, b := &p.before.State.Run, &p.after.State.Run
	if !b.Live || a.Scheduled != b.Scheduled || a.Due != b.Due || a.Attempt != b.Attempt ||
		a.Started != b.Started {
		p.t.Errorf("its run was %+v and is %+v", a, b)
	}
}

// hands checks that the run is handed out as its n-th attempt, with the job's content, once it is due.
func (p *patched) hands(n int) {
	p.t.Helper()
	if wait := p.after.State.Run.Due - p.now; wait > 0 {
		p.advance(time.Duration(wait))
	}
	p.recall()
	p.step()
	q := delivery.QueueOf(carillon.DefaultNamespace, p.put.Job.Target)
	ds, _ := p.m.Deliver(nil, p.now, q, 1, false, nil)
	id := p.before.State.Identity(0).String()
	if len(ds) != 1 || ds[0].Run.ID != id || ds[0].Run.Attempt != n ||
		!bytes.Equal(ds[0].Run.Data.Bytes, p.put.Job.Data.Bytes) {
		p.t.Errorf("handed out %+v, want attempt %d of %s", ds, n, id)
	}
}

// patchWords gives the words of the table their meanings.
var patchWords = map[string]func(*patched){
	"as it was": func(p *patched) {
		if a, b := &p.before.State, &p.after.State; a.Next != b.Next || a.Anchor != b.Anchor ||
			a.Expires != b.Expires || a.Begun != b.Begun || b.Run.Live {
			p.t.Errorf("its times were %+v and are %+v", a, b)
		}
	},
	"goes on": func(p *patched) {
		p.sameRun()
		if p.before.State.Run.Grant != p.after.State.Run.Grant || len(p.cancels) > 0 ||
			p.succeed(p.attempts[0]) != partition.Accepted {
			p.t.Error("its attempt is over")
		}
	},
	"waits on": func(p *patched) { p.sameRun(); p.hands(p.before.State.Run.Attempt + 1) },
	"next attempt": func(p *patched) {
		p.sameRun()
		if len(p.cancels) != 1 || p.succeed(p.attempts[0]) != partition.Stale {
			p.t.Errorf("its attempt is not over: told %v", p.cancels)
		}
		p.hands(p.before.State.Run.Attempt + 1)
	},
	"taken back": func(p *patched) {
		if b := &p.after.State; b.Run.Live || b.Next != p.before.State.Run.Scheduled || b.Begun != 0 {
			p.t.Errorf("its run is not taken back: %+v", b)
		}
	},
	"restart": func(p *patched) { p.again() },
	"another run": func(p *patched) {
		next := p.again()
		a := &p.before.State
		if next == a.Run.Scheduled {
			p.sameRun()
			p.hands(a.Run.Attempt + 1)
			return
		}
		h := p.history("a")
		told := a.Phase == carillon.PhaseRunning
		if len(h) != 1 || h[0].ID != a.Identity(0) || h[0].Status != carillon.RunCancelled ||
			h[0].Reason != partition.ReasonReplaced ||
			(len(p.cancels) == 1) != told || (p.after.State.Run.Live &&
			p.after.State.Run.Scheduled == a.Run.Scheduled) {
			p.t.Errorf("its run %s has become %+v, told %v", a.Identity(0), h, p.cancels)
		}
	},
}

// again checks that the times are those of a job put now, and returns the first.
func (p *patched) again() int64 {
	p.t.Helper()
	j := p.put.Job
	sched, err := j.ParseSchedule()
	if err != nil {
		p.t.Fatal(err)
	}
	anchor, next, expires, err := plan.FirstRun(&j, sched, time.Unix(0, p.now).UTC())
	if err != nil {
		p.t.Fatal(err)
	}
	s := &p.after.State
	end := int64(0)
	if !expires.IsZero() {
		end = expires.UnixNano()
	}
	if s.Anchor != anchor.UnixNano() || s.Expires != end || (!s.Run.Live && s.Next != next.UnixNano()) {
		p.t.Errorf("its times are %+v, want those of a new job: from %v, next %v", s, anchor, next)
	}
	return next.UnixNano()
}
