package carillon_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests need every zone, whatever the machine has

	"github.com/carillonhq/carillon"
)

// validJob is a recurring job with every field that may be set.
func validJob() carillon.Job {
	return carillon.Job{
		Namespace: "acme-1", Name: "reports/nightly", Schedule: "0 0 2 * * *", TimeZone: "Europe/London",
		DST: carillon.DSTLiteral, Due: carillon.In(time.Hour), Repeats: 10, TTL: carillon.WhenText("P30D"), Jitter: time.Minute,
		Data:     carillon.JSON(map[string]int{"x": 1}),
		Metadata: map[string]string{"Action": "=+/&?\n"}, Labels: map[string]string{"team": "ops"},
		Target:        carillon.WorkerQueue("emails"),
		FailurePolicy: carillon.Exponential(time.Second).WithMaxRetries(3),
		Timeout:       time.Hour, Lease: time.Minute,
		Overlap: carillon.OverlapSkip, Misfire: carillon.MisfireAll, CatchUpLimit: 5, CatchUpWindow: time.Hour,
		Priority: carillon.PriorityHigh, Paused: true, Note: "until Monday",
		History: carillon.History{Runs: -1, Keep: time.Hour},
	}
}

// withHTTP makes j a job for an HTTP target.
func withHTTP(j *carillon.Job, target carillon.HTTPTarget) {
	if target.URL == "" {
		target.URL = "https://example.com/run"
	}
	j.Target, j.Lease = carillon.Target{HTTP: &target}, 0
}

func withHeader(name, value string) func(*carillon.Job) {
	return func(j *carillon.Job) { withHTTP(j, carillon.HTTPTarget{Headers: map[string]string{name: value}}) }
}

func withURL(url string) func(*carillon.Job) {
	return func(j *carillon.Job) { withHTTP(j, carillon.HTTPTarget{URL: url}) }
}

func withPolicy(p carillon.FailurePolicy) func(*carillon.Job) {
	return func(j *carillon.Job) { j.FailurePolicy = p }
}

func TestAValidJobIsTaken(t *testing.T) {
	zero := uint32(0)
	for name, change := range map[string]func(*carillon.Job){
		"all fields":         func(*carillon.Job) {},
		"only a target":      func(j *carillon.Job) { *j = carillon.Job{Target: carillon.WorkerQueue("q")} },
		"empty namespace":    func(j *carillon.Job) { j.Namespace = "" },
		"name to be made up": func(j *carillon.Job) { j.Name = "" },
		"longest name":       func(j *carillon.Job) { j.Name = strings.Repeat("é", 256) },
		"name with blanks":   func(j *carillon.Job) { j.Name = "my job/第一" },
		"every":              func(j *carillon.Job) { j.Schedule, j.Jitter = "@every 10s", 10*time.Second },
		"iso":                func(j *carillon.Job) { j.Schedule, j.Jitter = "R4/2026-01-01T00:00:00Z/P1M", 0 },
		"absolute times": func(j *carillon.Job) {
			j.Due, j.TTL = carillon.WhenText("2030-01-01T00:00:00Z"), carillon.WhenText("2030-01-01T00:00:00Z")
		},
		"status is not looked at": func(j *carillon.Job) { j.Status = &carillon.JobStatus{Generation: 7} },
		"largest payload":         func(j *carillon.Job) { j.Data = carillon.Bytes(make([]byte, 1<<20), "") },
		"content type parameter":  func(j *carillon.Job) { j.Data.ContentType = "text/plain; charset=utf-8" },
		"http": func(j *carillon.Job) {
			withHTTP(j, carillon.HTTPTarget{Method: "PUT", Headers: map[string]string{"X-A": "b\tc"}})
		},
		"http on a port":         withURL("HTTP://[::1]:8080/a%20b?c=d"),
		"drop":                   withPolicy(carillon.Drop()),
		"one attempt, then dead": withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyConstant, MaxRetries: &zero, OnExhausted: carillon.ExhaustedDead}),
		"retry on a cron":        withPolicy(carillon.OnSchedule("*/2 * * * * *")),
		"no growth":              withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: 1}),
		"only on_exhausted":      withPolicy(carillon.FailurePolicy{OnExhausted: carillon.ExhaustedDead}),
	} {
		j := validJob()
		change(&j)
		if err := j.Validate(carillon.DefaultBounds()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := j.Validate(carillon.Bounds{}); err != nil {
			t.Errorf("%s, with the zero limits, which are the defaults: %v", name, err)
		}
	}
}

// TestEveryFieldWrongInTurn: each fault alone is refused, naming its field and saying why.
func TestEveryFieldWrongInTurn(t *testing.T) {
	names := map[string]bool{}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if names[f.name] {
				t.Fatal("two faults have this name")
			}
			names[f.name] = true
			j := validJob()
			f.change(&j)
			err := j.Validate(carillon.DefaultBounds())
			e, ok := errors.AsType[*carillon.Error](err)
			switch {
			case !ok:
				t.Fatalf("got %v, want an *Error", err)
			case e.Kind != carillon.InvalidArgument || e.Field != f.field || !strings.Contains(e.Message, f.says):
				t.Errorf("got %v\nwant field %q, saying %q", e, f.field, f.says)
			case len(e.Message) > 400:
				t.Errorf("a message of %d bytes", len(e.Message))
			}
		})
	}
}

// TestNoFieldIsUnchecked: each field of a job has a fault, except those of which every value is right.
func TestNoFieldIsUnchecked(t *testing.T) {
	right := []string{"Paused", "Status"}
	checked := map[string]bool{}
	for _, f := range faults {
		before, after := validJob(), validJob()
		f.change(&after)
		v, w := reflect.ValueOf(before), reflect.ValueOf(after)
		for i := range v.NumField() {
			if !reflect.DeepEqual(v.Field(i).Interface(), w.Field(i).Interface()) {
				checked[v.Type().Field(i).Name] = true
			}
		}
	}
	for f := range reflect.TypeFor[carillon.Job]().Fields() {
		if !checked[f.Name] && !slices.Contains(right, f.Name) {
			t.Errorf("no fault is about %s", f.Name)
		}
	}
}

// TestTheFirstFaultIsNamed: with several faults, always the same one, the first of docs/concepts.md.
func TestTheFirstFaultIsNamed(t *testing.T) {
	j := validJob()
	j.Note, j.Jitter, j.Schedule, j.TimeZone = "\xff", -1, "bad", "Nowhere/At_All"
	for _, want := range []struct {
		field string
		mend  func()
	}{
		{"schedule", func() { j.Schedule = "@daily" }},
		{"time_zone", func() { j.TimeZone = "" }},
		{"jitter", func() { j.Jitter = 0 }},
		{"note", func() { j.Note = "" }},
	} {
		for range 10 {
			if got := fieldOf(j.Validate(carillon.DefaultBounds())); got != want.field {
				t.Fatalf("the error is about %q, want %q", got, want.field)
			}
		}
		want.mend()
	}
	if err := j.Validate(carillon.DefaultBounds()); err != nil {
		t.Error(err)
	}
}

// TestMapsAreCheckedInOrder: the same key is blamed each time.
func TestMapsAreCheckedInOrder(t *testing.T) {
	j := validJob()
	j.Metadata = map[string]string{"b\xff": "", "a\xff": "", "c\xff": ""}
	for range 20 {
		if err := j.Validate(carillon.DefaultBounds()); !strings.Contains(err.Error(), `a\xff`) {
			t.Fatalf("not the first key: %v", err)
		}
	}
}

func TestLimitsAreConfigurable(t *testing.T) {
	for field, lim := range map[string]carillon.Bounds{
		"namespace":           {Namespace: 5},
		"name":                {Name: 14},
		"schedule":            {Schedule: 10},
		"data":                {Payload: 6},
		"metadata":            {Metadata: 11},
		"labels":              {Labels: 1},
		"target.http.url":     {URL: 22},
		"target.http.headers": {Headers: 7},
		"note":                {Note: 11},
	} {
		j := validJob()
		j.Labels = map[string]string{"a": "", "b": ""}
		withHTTP(&j, carillon.HTTPTarget{Headers: map[string]string{"X-A": "b"}})
		if got := fieldOf(j.Validate(lim)); got != field {
			t.Errorf("%+v: the error is about %q, want %q", lim, got, field)
		}
	}
	j := validJob()
	j.Name = strings.Repeat("x", carillon.MaxName+1)
	if got := fieldOf(j.Validate(carillon.Bounds{Name: 1000})); got != "name" {
		t.Errorf("the limit of names was raised beyond what the store holds")
	}
}

func TestValidateNames(t *testing.T) {
	key := func(ns, name string) error { return carillon.ValidateKey(carillon.Key{Namespace: ns, Name: name}) }
	long := strings.Repeat("x", 513)
	for _, c := range []struct {
		what  string
		err   error
		field string
	}{
		{"a key", key("default", "a/b c/ü"), ""},
		{"no namespace", key("", "a"), "namespace"},
		{"a namespace too long", key(long[:64], "a"), "namespace"},
		{"upper case", key("Default", "a"), "namespace"},
		{"a dot", key("a.b", "a"), "namespace"},
		{"no name", key("default", ""), "name"},
		{"a name too long", key("default", long), "name"},
		{"a colon", key("default", "a:b"), "name"},
		{"an empty level", key("default", "a//b"), "name"},
		{"a prefix", carillon.ValidatePrefix("default", "a/"), ""},
		{"no prefix", carillon.ValidatePrefix("default", ""), "prefix"},
		{"a prefix without namespace", carillon.ValidatePrefix("", "a"), "namespace"},
		{"a prefix too long", carillon.ValidatePrefix("default", long), "prefix"},
		{"a prefix with a control character", carillon.ValidatePrefix("default", "a\x00"), "prefix"},
		{"a queue", carillon.ValidateQueueName("queues", "a:b/c"), ""},
		{"no queue", carillon.ValidateQueueName("queues", ""), "queues"},
		{"a queue too long", carillon.ValidateQueueName("queues", long), "queues"},
		{"a queue that is not UTF-8", carillon.ValidateQueueName("queues", "\xff"), "queues"},
	} {
		if got := fieldOf(c.err); got != c.field {
			t.Errorf("%s: %v, want an error about %q", c.what, c.err, c.field)
		}
	}
}

// fieldOf is the field of an *Error; "" for no error.
func fieldOf(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Kind == carillon.InvalidArgument {
		return e.Field
	}
	return "not an invalid argument: " + err.Error()
}

// many are n labels or metadata.
func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[strings.Repeat("k", i+1)] = ""
	}
	return m
}

// with is m and one more.
func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	m[key] = value
	return m
}
