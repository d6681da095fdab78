package carillon_test

import (
	"errors"
	"maps"
	"math"
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
		Calendars: carillon.CalendarRules{DST: carillon.DSTLiteral, Except: []string{"uk-holidays"},
			Only: []string{"trading.days"}}, Due: carillon.In(time.Hour), Repeats: 10, TTL: carillon.WhenText("P30D"),
		Jitter: time.Minute, Data: carillon.JSON(map[string]int{"x": 1}),
		Metadata: map[string]string{"Action": "=+/&?\n"}, Labels: map[string]string{"team": "ops"},
		Target:        carillon.WorkerQueue("emails"),
		FailurePolicy: carillon.Exponential(time.Second).WithMaxRetries(3),
		Timeout:       time.Hour, Lease: time.Minute,
		Overlap: carillon.OverlapSkip, Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Limit: 5,
			Window: time.Hour},
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
		"http on a port": withURL("HTTP://[::1]:8080/a%20b?c=d"),
		"drop":           withPolicy(carillon.Drop()),
		"one attempt, then dead": withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyConstant,
			MaxRetries: &zero, OnExhausted: carillon.ExhaustedDead}),
		"retry on a cron":   withPolicy(carillon.OnSchedule("*/2 * * * * *")),
		"no growth":         withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: 1}),
		"only on_exhausted": withPolicy(carillon.FailurePolicy{OnExhausted: carillon.ExhaustedDead}),
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
	key := func(ns, name string) error { return carillon.Key{Namespace: ns, Name: name}.Validate() }
	long := strings.Repeat("x", 513)
	for _, c := range []struct {
		what  string
		err   error
		field string
	}{
		{"a key", key("default", "a/b c/ü"), ""},
		{"no namespace", key("", "a"), "namespace"},
		{"a namespace too long", key(long[:64], "a"), "namespace"},
		{"letters of both cases", key("aZ-09", "a"), ""},
		{"an underscore", key("a_b", "a"), "namespace"},
		{"a letter beyond ASCII", key("ä", "a"), "namespace"},
		{"a dot", key("a.b", "a"), "namespace"},
		{"no name", key("default", ""), "name"},
		{"a name too long", key("default", long), "name"},
		{"a colon", key("default", "a:b"), "name"},
		{"an empty level", key("default", "a//b"), "name"},
		{"a queue", (&carillon.WorkerTarget{Queue: "a:b/c"}).Validate(), ""},
		{"no queue", (&carillon.WorkerTarget{Queue: ""}).Validate(), "queue"},
		{"a queue too long", (&carillon.WorkerTarget{Queue: long}).Validate(), "queue"},
		{"a queue that is not UTF-8", (&carillon.WorkerTarget{Queue: "\xff"}).Validate(), "queue"},
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

// ofSchedules are jobs of which one field has no effect without a schedule.
func ofSchedules() map[string]carillon.Job {
	return map[string]carillon.Job{
		"time_zone": {TimeZone: "Europe/London"}, "dst": {Calendars: carillon.CalendarRules{DST: carillon.DSTLiteral}},
		"except":          {Calendars: carillon.CalendarRules{Except: []string{"a"}}},
		"only":            {Calendars: carillon.CalendarRules{Only: []string{"a"}}},
		"overlap":         {Overlap: carillon.OverlapAllow},
		"misfire":         {Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}},
		"catch_up_limit":  {Misfire: carillon.Misfire{Limit: 1}},
		"catch_up_window": {Misfire: carillon.Misfire{Window: time.Hour}},
	}
}

// blamed is the field that an error names.
func blamed(err error) string {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || e.Kind != carillon.InvalidArgument {
		return ""
	}
	return e.Field
}

// TestFieldsWithoutEffectAreRefused: a one-shot with a field that only a schedule goes by is refused by that
// field, and the same job with a schedule is not.
func TestFieldsWithoutEffectAreRefused(t *testing.T) {
	for field, j := range ofSchedules() {
		j.Target = carillon.WorkerQueue("q")
		if err := j.Validate(carillon.Bounds{}); blamed(err) != field {
			t.Errorf("%s of a one-shot: %v", field, err)
		}
		j.Schedule = "@daily"
		if err := j.Validate(carillon.Bounds{}); err != nil {
			t.Errorf("%s of a recurring job: %v", field, err)
		}
	}
}

// TestTimeZonesOfOneShots: a time zone is taken where something goes by it, be it days or a retry cron.
func TestTimeZonesOfOneShots(t *testing.T) {
	zone := func(due, ttl string, p carillon.FailurePolicy) error {
		j := carillon.Job{TimeZone: "Europe/London", Due: carillon.WhenText(due), TTL: carillon.WhenText(ttl),
			FailurePolicy: p, Target: carillon.WorkerQueue("q")}
		return j.Validate(carillon.Bounds{})
	}
	var none carillon.FailurePolicy
	for _, err := range []error{zone("P1D", "", none), zone("P1M", "", none), zone("P1W", "", none),
		zone(" P1DT1H", "", none), zone("", "P2D", none),
		zone("1h", "P1Y", none), zone("", "", carillon.OnSchedule("0 9 * * *").WithMaxRetries(3))} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, err := range []error{zone("", "", none), zone("PT24H", "", none), zone("24h", "48h", none),
		zone("P0D", "", none), zone("2099-01-01T00:00:00Z", "", none), zone("", "", carillon.Constant(time.Hour))} {
		if blamed(err) != "time_zone" {
			t.Errorf("it has no effect: %v", err)
		}
	}
}

// TestFieldsThatHadNoEffectBefore: a job that was stored with a field without effect can be patched, but for
// that field.
func TestFieldsThatHadNoEffectBefore(t *testing.T) {
	for field, old := range ofSchedules() {
		old.Target = carillon.WorkerQueue("q")
		for other := range ofSchedules() {
			for _, p := range []carillon.Patch{
				{Fields: []string{"note"}, Job: carillon.Job{Note: "n"}},
				{Fields: []string{field}, Job: old},
				{Fields: []string{field}},
				{Fields: []string{other}, Job: ofSchedules()[other]},
				{Fields: []string{"schedule"}, Job: carillon.Job{Schedule: "@daily"}},
			} {
				j, err := p.Apply(old)
				if err != nil {
					t.Fatal(err)
				}
				want := ""
				switch {
				case p.Fields[0] == field && p.Job.Target.Worker != nil:
					want = field
				case p.Fields[0] == other && p.Job.Note == "" && p.Job.Schedule == "" &&
					(other != field || p.Job.Misfire.Limit+int(p.Job.Misfire.Window)+
						int(p.Job.Calendars.DST)+len(p.Job.Calendars.Except)+len(p.Job.Calendars.Only)+int(p.Job.Overlap)+int(p.Job.Misfire.Rule)+len(p.Job.TimeZone) > 0):
					want = other
				}
				if err := p.ValidatePatched(&old, &j, carillon.Bounds{}); blamed(err) != want ||
					(want == "") != (err == nil) {
					t.Errorf("with %s, patch of %v: %v; want %q", field, p.Fields, err, want)
				}
			}
		}
	}
}

// TestWhatNoMessageCanSay is refused before it is sent: a part of it would be lost on the way.
func TestWhatNoMessageCanSay(t *testing.T) {
	initial := carillon.Exponential(time.Second)
	initial.Interval = time.Second
	for field, j := range map[string]carillon.Job{
		"data": {Data: carillon.JSON(func() {})},
		"target": {Target: carillon.Target{Worker: &carillon.WorkerTarget{},
			HTTP: &carillon.HTTPTarget{}}},
		"note":                             {Note: "caf\xe9"},
		"failure_policy.drop.max_retries":  {FailurePolicy: carillon.Drop().WithMaxRetries(3)},
		"failure_policy":                   {FailurePolicy: carillon.FailurePolicy{}.WithMaxRetries(3)},
		"failure_policy.constant.interval": {FailurePolicy: initial},
	} {
		if err := j.CheckForm(); blamed(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestAnEmptiedSchedule: a patch that makes a one-shot of a recurring job says when that is to run.
func TestAnEmptiedSchedule(t *testing.T) {
	daily := carillon.Job{Schedule: "@daily", Due: carillon.WhenText("2026-01-01T00:00:00Z"),
		Target: carillon.WorkerQueue("q")}
	for _, p := range []carillon.Patch{{Fields: []string{"schedule"}},
		{Fields: []string{"schedule", "due_time"}},
		{Fields: []string{"schedule", "note"}, Job: carillon.Job{Due: carillon.In(time.Hour)}}} {
		if j, err := p.Apply(daily); blamed(err) != "schedule" {
			t.Errorf("%v: %+v, %v", p.Fields, j, err)
		}
	}
	at := carillon.Patch{Fields: []string{"schedule", "due_time"},
		Job: carillon.Job{Due: carillon.In(time.Hour)}}
	if j, err := at.Apply(daily); err != nil || j.Recurring() || j.Due.String() != "1h0m0s" {
		t.Errorf("%+v, %v", j, err)
	}
	once := carillon.Patch{Fields: []string{"schedule"}}
	if _, err := once.Apply(carillon.Job{}); err != nil {
		t.Errorf("of a one-shot: %v", err)
	}
}

// fault is one change that makes a valid job invalid.
type fault struct {
	name   string
	field  string // that the error must name
	says   string // part of the message
	change func(*carillon.Job)
}

// faults has every field of a job wrong in turn, in the order of docs/concepts.md.
var faults = append(append(append(fieldFaults, ruleFaults...), targetFaults...), policyFaults...)

var fieldFaults = []fault{
	{"namespace with a dot", "namespace", "a-z, A-Z, 0-9 and -", func(j *carillon.Job) { j.Namespace = "ac.me" }},
	{"namespace too long", "namespace", "64 bytes are more than 63",
		func(j *carillon.Job) { j.Namespace = strings.Repeat("a", 64) }},
	{"name too long", "name", "513 bytes are more than 512",
		func(j *carillon.Job) { j.Name = strings.Repeat("a", 513) }},
	{"name with a colon", "name", `":"`, func(j *carillon.Job) { j.Name = "a:b" }},
	{"name not UTF-8", "name", "not printable", func(j *carillon.Job) { j.Name = "a\xff" }},
	{"name with a control character", "name", "not printable", func(j *carillon.Job) { j.Name = "a\nb" }},
	{"name with an invisible character", "name", "not printable", func(j *carillon.Job) { j.Name = "a\u200bb" }},
	{"name with a leading slash", "name", "empty level", func(j *carillon.Job) { j.Name = "/a" }},
	{"name with a trailing slash", "name", "empty level", func(j *carillon.Job) { j.Name = "a/" }},
	{"name with an empty level", "name", "empty level", func(j *carillon.Job) { j.Name = "a//b" }},
	{"name of a dot", "name", `level "."`, func(j *carillon.Job) { j.Name = "." }},
	{"name with a level of a dot", "name", `level "."`, func(j *carillon.Job) { j.Name = "a/./b" }},
	{"name that leads upwards", "name", `level ".."`, func(j *carillon.Job) { j.Name = "a/.." }},
	{"name of a slash", "name", "empty level", func(j *carillon.Job) { j.Name = "/" }},

	{"schedule that is none", "schedule", "position 0", func(j *carillon.Job) { j.Schedule = "whenever" }},
	{"schedule out of range", "schedule", "minute at position 2",
		func(j *carillon.Job) { j.Schedule = "0 61 * * * *" }},
	{"schedule that never fires", "schedule", "never fires",
		func(j *carillon.Job) { j.Schedule = "0 0 0 30 2 *" }},
	{"schedule of a zone alone", "schedule", "time zone alone", func(j *carillon.Job) { j.Schedule = "TZ=UTC" }},
	{"schedule too long", "schedule", "1025 bytes",
		func(j *carillon.Job) { j.Schedule = "@every 1s" + strings.Repeat(" ", 1016) }},
	{"time_zone unknown", "time_zone", "Europe/London", func(j *carillon.Job) { j.TimeZone = "Mars/Olympus" }},
	{"time_zone of the machine", "time_zone", "node to node", func(j *carillon.Job) { j.TimeZone = "Local" }},
	{"time_zone that is a path", "time_zone", "unknown",
		func(j *carillon.Job) { j.TimeZone = "../../etc/passwd" }},
	{"dst", "dst", "safe, literal", func(j *carillon.Job) { j.Calendars.DST = 2 }},
	{"due_time", "due_time", "soon", func(j *carillon.Job) { j.Due = carillon.WhenText("soon") }},
	{"due_time negative", "due_time", "negative", func(j *carillon.Job) { j.Due = carillon.In(-time.Second) }},
	{"due_time that is the zero time", "due_time", "is not between 1970-",
		func(j *carillon.Job) { j.Due = carillon.At(time.Time{}) }},
	{"due_time too far", "due_time", "is not between 1970-",
		func(j *carillon.Job) { j.Due = carillon.WhenText("2263-01-01T00:00:00Z") }},
	{"repeats without a schedule", "repeats", "schedule",
		func(j *carillon.Job) { j.Schedule, j.Repeats = "", 1 }},
	{"ttl", "ttl", "30 days", func(j *carillon.Job) { j.TTL = carillon.WhenText("30 days") }},
	{"ttl before due_time", "ttl", "before its first run", func(j *carillon.Job) {
		j.Due, j.TTL = carillon.WhenText("2030-01-02T00:00:00Z"), carillon.WhenText("2030-01-01T00:00:00Z")
	}},
	{"jitter negative", "jitter", "negative", func(j *carillon.Job) { j.Jitter = -1 }},
	{"jitter too long", "jitter", "longer than", func(j *carillon.Job) { j.Jitter = carillon.MaxSpan + 1 }},
	{"jitter over the interval", "jitter", "interval, 10s",
		func(j *carillon.Job) { j.Schedule, j.Jitter = "@every 10s", 11*time.Second }},

	{"data that is no JSON", "data", "JSON", func(j *carillon.Job) { j.Data = carillon.JSON(make(chan int)) }},
	{"data too large", "data", "1048577 bytes",
		func(j *carillon.Job) { j.Data = carillon.Bytes(make([]byte, 1<<20+1), "") }},
	{"content_type", "content_type", "media type", func(j *carillon.Job) { j.Data.ContentType = "json" }},
	{"content_type with a line break", "content_type", "media type",
		func(j *carillon.Job) { j.Data.ContentType = "a/b\r\nX: y" }},
	{"content_type too long", "content_type", "more than 256",
		func(j *carillon.Job) { j.Data.ContentType = "a/" + strings.Repeat("b", 255) }},
	{"metadata with an empty key", "metadata", "empty",
		func(j *carillon.Job) { j.Metadata = map[string]string{"": "x"} }},
	{"metadata key not UTF-8", "metadata", "UTF-8",
		func(j *carillon.Job) { j.Metadata = map[string]string{"\xff": "x"} }},
	{"metadata value not UTF-8", "metadata", `"k"`,
		func(j *carillon.Job) { j.Metadata = map[string]string{"k": "\xff"} }},
	{"metadata too large", "metadata", "65537 bytes",
		func(j *carillon.Job) { j.Metadata = map[string]string{"k": strings.Repeat("x", 64<<10)} }},
	{"labels too many", "labels", "65 labels", func(j *carillon.Job) { j.Labels = many(65) }},
	{"labels with an empty key", "labels", "empty",
		func(j *carillon.Job) { j.Labels = with(j.Labels, "", "x") }},
	{"labels with = in a key", "labels", `"="`, func(j *carillon.Job) { j.Labels = with(j.Labels, "a=b", "x") }},
	{"labels key too long", "labels", "129 bytes",
		func(j *carillon.Job) { j.Labels = with(j.Labels, strings.Repeat("k", 129), "x") }},
	{"labels value too long", "labels", "257 bytes",
		func(j *carillon.Job) { j.Labels = with(j.Labels, "k", strings.Repeat("x", 257)) }},
	{"labels value with a line break", "labels", "not printable",
		func(j *carillon.Job) { j.Labels = with(j.Labels, "k", "a\nb") }},
}

var ruleFaults = []fault{
	{"timeout negative", "timeout", "negative", func(j *carillon.Job) { j.Timeout = -time.Second }},
	{"timeout too short", "timeout", "shorter than 1ms", func(j *carillon.Job) { j.Timeout = time.Microsecond }},
	{"timeout too long", "timeout", "longer than 168h", func(j *carillon.Job) { j.Timeout = 169 * time.Hour }},
	{"lease negative", "lease", "negative", func(j *carillon.Job) { j.Lease = -time.Second }},
	{"lease too short", "lease", "shorter than 1s", func(j *carillon.Job) { j.Lease = time.Second - 1 }},
	{"lease too long", "lease", "longer than 168h", func(j *carillon.Job) { j.Lease = 169 * time.Hour }},
	{"lease for http", "lease", "leave it out for http",
		func(j *carillon.Job) { j.Target = carillon.HTTP("http://a/") }},
	{"overlap unknown", "overlap", "serial, skip, allow, replace", func(j *carillon.Job) { j.Overlap = 4 }},
	{"misfire unknown", "misfire", "latest, all, skip", func(j *carillon.Job) { j.Misfire.Rule = 3 }},
	{"catch_up_limit negative", "catch_up_limit", "0-10000", func(j *carillon.Job) { j.Misfire.Limit = -1 }},
	{"catch_up_limit too high", "catch_up_limit", "0-10000", func(j *carillon.Job) { j.Misfire.Limit = 10_001 }},
	{"catch_up_window negative", "catch_up_window", "negative", func(j *carillon.Job) { j.Misfire.Window = -1 }},
	{"catch_up_window too long", "catch_up_window", "longer than",
		func(j *carillon.Job) { j.Misfire.Window = math.MaxInt64 }},
	{"priority unknown", "priority", "normal, critical, high, low", func(j *carillon.Job) { j.Priority = 4 }},
	{"concurrency_key", "concurrency_key", "not printable",
		func(j *carillon.Job) { j.ConcurrencyKey = "lic\nence" }},
	{"depends on itself", "depends_on[1]", "wait for itself",
		func(j *carillon.Job) { j.Name, j.DependsOn = "me", []string{"other", "me"} }},
	{"depends on one twice", "depends_on[1]", "named twice",
		func(j *carillon.Job) { j.DependsOn = []string{"other", "other"} }},
	{"depends on a wrong name", "depends_on[0]", "empty level",
		func(j *carillon.Job) { j.DependsOn = []string{"a//b"} }},
	{"depends on too many", "depends_on", "more than 16",
		func(j *carillon.Job) { j.DependsOn = make([]string, 17) }},
	{"note too long", "note", "4097 bytes", func(j *carillon.Job) { j.Note = strings.Repeat("x", 4097) }},
	{"note not UTF-8", "note", "UTF-8", func(j *carillon.Job) { j.Note = "\xff" }},
	{"history.runs too low", "history.runs", "-1-10000", func(j *carillon.Job) { j.History.Runs = -2 }},
	{"history.runs too high", "history.runs", "-1-10000", func(j *carillon.Job) { j.History.Runs = 10_001 }},
	{"history.keep negative", "history.keep", "negative", func(j *carillon.Job) { j.History.Keep = -1 }},
	{"history.keep too long", "history.keep", "longer than",
		func(j *carillon.Job) { j.History.Keep = math.MaxInt64 }},
}

var targetFaults = []fault{
	{"no target", "target", "missing", func(j *carillon.Job) { j.Target = carillon.Target{} }},
	{"two targets", "target", "there are 2",
		func(j *carillon.Job) { j.Target.HTTP = &carillon.HTTPTarget{URL: "http://a/"} }},
	{"no cluster", "target.kafka.cluster", "missing", withKafka("", "t", "")},
	{"cluster with a space", "target.kafka.cluster", "letters, digits", withKafka("a b", "t", "")},
	{"cluster too long", "target.kafka.cluster", "64 bytes", withKafka(strings.Repeat("x", 64), "t", "")},
	{"no topic", "target.kafka.topic", "missing", withKafka("c", "", "")},
	{"topic too long", "target.kafka.topic", "250 bytes", withKafka("c", strings.Repeat("t", 250), "")},
	{"topic that is ..", "target.kafka.topic", "neither . nor ..", withKafka("c", "..", "")},
	{"topic with a slash", "target.kafka.topic", "letters, digits", withKafka("c", "a/b", "")},
	{"record key too long", "target.kafka.key", "513 bytes", withKafka("c", "t", strings.Repeat("k", 513))},
	{"no broker", "target.amqp.broker", "missing", withAMQP("", "e", "")},
	{"exchange too long", "target.amqp.exchange", "128 bytes", withAMQP("b", strings.Repeat("e", 128), "")},
	{"exchange with a slash first", "target.amqp.exchange", "begin with /", withAMQP("b", "/e", "")},
	{"neither exchange nor key", "target.amqp.routing_key", "name of a queue", withAMQP("b", "", "")},
	{"routing key too long", "target.amqp.routing_key", "256 bytes", withAMQP("b", "e", strings.Repeat("k", 256))},
	{"routing key with a line break", "target.amqp.routing_key", "not printable", withAMQP("b", "e", "a\nb")},
	{"no server of NATS", "target.nats.server", "missing", withNATS("", "s")},
	{"no subject", "target.nats.subject", "missing", withNATS("n", "")},
	{"subject with a space", "target.nats.subject", "space", withNATS("n", "a b")},
	{"subject with a quote", "target.nats.subject", "may not have", withNATS("n", `a"b`)},
	{"subject with a backslash", "target.nats.subject", "may not have", withNATS("n", `a\b`)},
	{"subject with an empty part", "target.nats.subject", "empty part", withNATS("n", "a..b")},
	{"subject with a wildcard", "target.nats.subject", "wildcard *", withNATS("n", "a.*")},
	{"subject that is all", "target.nats.subject", "wildcard >", withNATS("n", "a.>")},
	{"subject of the server", "target.nats.subject", "server itself", withNATS("n", "$JS.API.INFO")},
	{"subject too long", "target.nats.subject", "256 bytes", withNATS("n", strings.Repeat("s", 256))},
	{"no server of Redis", "target.redis.server", "missing", withRedis("", "s")},
	{"no stream", "target.redis.stream", "missing", withRedis("r", "")},
	{"stream too long", "target.redis.stream", "256 bytes", withRedis("r", strings.Repeat("s", 256))},
	{"stream not UTF-8", "target.redis.stream", "not printable", withRedis("r", "\xff")},
	{"exec", "target.exec", "not supported yet",
		func(j *carillon.Job) { j.Target = carillon.Target{Exec: &carillon.ExecTarget{}} }},
	{"no queue", "target.worker.queue", "missing",
		func(j *carillon.Job) { j.Target = carillon.WorkerQueue("") }},
	{"queue too long", "target.worker.queue", "513 bytes",
		func(j *carillon.Job) { j.Target = carillon.WorkerQueue(strings.Repeat("q", 513)) }},
	{"queue with a line break", "target.worker.queue", "not printable",
		func(j *carillon.Job) { j.Target = carillon.WorkerQueue("a\nb") }},

	{"no url", "target.http.url", "missing", func(j *carillon.Job) { j.Target, j.Lease = carillon.HTTP(""), 0 }},
	{"url that is none", "target.http.url", "not a URL", withURL("http://a b/")},
	{"url without a scheme", "target.http.url", "begin with http://", withURL("example.com/run")},
	{"url that is a path", "target.http.url", "begin with http://", withURL("/run")},
	{"url of another scheme", "target.http.url", "begin with http://", withURL("ftp://example.com/")},
	{"url without a host", "target.http.url", "no host", withURL("http:///run")},
	{"url that is opaque", "target.http.url", "no host", withURL("http:run")},
	{"url with a port but no host", "target.http.url", "no host", withURL("http://:80/")},
	{"url with a bad port", "target.http.url", "port", withURL("http://example.com:65536/")},
	{"url with port 0", "target.http.url", "port", withURL("http://example.com:0/")},
	{"url with an empty port", "target.http.url", "port", withURL("http://example.com:/")},
	{"url with a password", "target.http.url", "user name", withURL("https://me:secret@example.com/")},
	{"url with a fragment", "target.http.url", "fragment", withURL("https://example.com/#top")},
	{"url with an empty fragment", "target.http.url", "fragment", withURL("https://example.com/#")},
	{"url not UTF-8", "target.http.url", "not a URL", withURL("http://example.com/\xff")},
	{"url too long", "target.http.url", "more than 8192",
		withURL("http://example.com/" + strings.Repeat("x", 8192))},
	{"method in lower case", "target.http.method", "POST, PUT",
		func(j *carillon.Job) { withHTTP(j, carillon.HTTPTarget{Method: "post"}) }},
	{"method not allowed", "target.http.method", "POST, PUT",
		func(j *carillon.Job) { withHTTP(j, carillon.HTTPTarget{Method: "CONNECT"}) }},
	{"method that is two", "target.http.method", "POST, PUT",
		func(j *carillon.Job) { withHTTP(j, carillon.HTTPTarget{Method: "GET /x HTTP/1.1\r\n"}) }},
	{"header without a name", "target.http.headers", "not a header's name", withHeader("", "x")},
	{"header with a bad name", "target.http.headers", "not a header's name", withHeader("X A", "x")},
	{"header with a bad value", "target.http.headers", `"X-A"`, withHeader("X-A", "x\r\nX-B: y")},
	{"header value not UTF-8", "target.http.headers", `"X-A"`, withHeader("X-A", "\xff")},
	{"header that has a field", "target.http.headers", "content_type", withHeader("Content-Type", "text/plain")},
	{"header that was not shown", "target.http.headers", "give the value", withHeader("X-A", carillon.Redacted)},
	{"header of Carillon", "target.http.headers", "set by Carillon", withHeader("carillon-Attempt", "1")},
	{"header of CloudEvents", "target.http.headers", "set by Carillon", withHeader("CE-Id", "1")},
	{"header of webhooks", "target.http.headers", "set by Carillon", withHeader("Webhook-Signature", "1")},
	{"header that is the key", "target.http.headers", "set by Carillon", withHeader("Idempotency-Key", "1")},
	{"header that traces", "target.http.headers", "set by Carillon", withHeader("Traceparent", "1")},
	{"header of the connection", "target.http.headers", "connection",
		withHeader("Transfer-Encoding", "chunked")},
	{"header that is the host", "target.http.headers", "connection", withHeader("Host", "internal")},
	{"header twice", "target.http.headers", "the same header", func(j *carillon.Job) {
		withHTTP(j, carillon.HTTPTarget{Headers: map[string]string{"X-A": "1", "x-a": "2"}})
	}},
	{"headers too large", "target.http.headers", "more than 16384",
		withHeader("X-A", strings.Repeat("x", 16<<10))},
}

var policyFaults = []fault{
	{"policy unknown", "failure_policy", "default, drop, constant", withPolicy(carillon.FailurePolicy{Kind: 5})},
	{"interval in another policy", "failure_policy.constant.interval", "belongs to the policy constant",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Interval: 1})},
	{"cron in another policy", "failure_policy.schedule.cron", "this one is drop",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, Schedule: "@daily"})},
	{"initial in no policy", "failure_policy.exponential.initial", "this one is default",
		withPolicy(carillon.FailurePolicy{Initial: 1})},
	{"factor in another policy", "failure_policy.exponential.factor", "belongs to",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, Factor: 2})},
	{"max in another policy", "failure_policy.exponential.max", "belongs to",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, Max: 1})},
	{"jitter in another policy", "failure_policy.exponential.jitter", "belongs to",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, Jitter: 1})},
	{"max_retries with drop", "failure_policy.drop.max_retries", "drop has none",
		withPolicy(carillon.Drop().WithMaxRetries(1))},
	{"max_retries with no policy", "failure_policy", "default has none",
		withPolicy(carillon.FailurePolicy{}.WithMaxRetries(1))},
	{"interval negative", "failure_policy.constant.interval", "negative", withPolicy(carillon.Constant(-1))},
	{"interval too long", "failure_policy.constant.interval", "longer than",
		withPolicy(carillon.Constant(math.MaxInt64))},
	{"retries without pause or end", "failure_policy.constant.interval", "max_retries",
		withPolicy(carillon.Constant(0))},
	{"constant max_retries", "failure_policy.constant.max_retries", "more than 1000000",
		withPolicy(carillon.Constant(1).WithMaxRetries(1_000_001))},
	{"no cron", "failure_policy.schedule.cron", "empty", withPolicy(carillon.OnSchedule(""))},
	{"cron that is none", "failure_policy.schedule.cron", "position", withPolicy(carillon.OnSchedule("1 2 3"))},
	{"cron that is @every", "failure_policy.schedule.cron", "not a cron",
		withPolicy(carillon.OnSchedule("@every 1s"))},
	{"cron that is a repeat", "failure_policy.schedule.cron", "not a cron",
		withPolicy(carillon.OnSchedule("R/2026-01-01T00:00:00Z/P1D"))},
	{"cron too long", "failure_policy.schedule.cron", "1025 bytes",
		withPolicy(carillon.OnSchedule("@daily" + strings.Repeat(" ", 1019)))},
	{"schedule max_retries", "failure_policy.schedule.max_retries", "more than 1000000",
		withPolicy(carillon.OnSchedule("@daily").WithMaxRetries(1_000_001))},
	{"initial negative", "failure_policy.exponential.initial", "negative", withPolicy(carillon.Exponential(-1))},
	{"factor below 1", "failure_policy.exponential.factor", "from 1 up",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: 0.5})},
	{"factor negative", "failure_policy.exponential.factor", "from 1 up",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: -2})},
	{"factor that is no number", "failure_policy.exponential.factor", "from 1 up",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: math.NaN()})},
	{"factor without bounds", "failure_policy.exponential.factor", "from 1 up",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Factor: math.Inf(1)})},
	{"max negative", "failure_policy.exponential.max", "negative",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Max: -1})},
	{"max below initial", "failure_policy.exponential.max", "initial, 2s",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Max: time.Second})},
	{"initial above max", "failure_policy.exponential.max", "1h is shorter",
		withPolicy(carillon.Exponential(2 * time.Hour))},
	{"retry jitter negative", "failure_policy.exponential.jitter", "negative",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyExponential, Jitter: -1})},
	{"exponential max_retries", "failure_policy.exponential.max_retries", "more than 1000000",
		withPolicy(carillon.Exponential(1).WithMaxRetries(1_000_001))},
	{"on_exhausted unknown", "failure_policy.on_exhausted", "default, dead, drop",
		withPolicy(carillon.FailurePolicy{OnExhausted: 3})},
	{"drop, then dead", "failure_policy.on_exhausted", "no dead runs",
		withPolicy(carillon.FailurePolicy{Kind: carillon.PolicyDrop, OnExhausted: carillon.ExhaustedDead})},
}

func withKafka(cluster, topic, key string) func(*carillon.Job) {
	return func(j *carillon.Job) {
		j.Target = carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: cluster, Topic: topic, Key: key}}
	}
}

func withAMQP(broker, exchange, key string) func(*carillon.Job) {
	return func(j *carillon.Job) {
		j.Target = carillon.Target{AMQP: &carillon.AMQPTarget{Broker: broker, Exchange: exchange, RoutingKey: key}}
	}
}

func withNATS(server, subject string) func(*carillon.Job) {
	return func(j *carillon.Job) {
		j.Target = carillon.Target{NATS: &carillon.NATSTarget{Server: server, Subject: subject}}
	}
}

func withRedis(server, stream string) func(*carillon.Job) {
	return func(j *carillon.Job) {
		j.Target = carillon.Target{Redis: &carillon.RedisTarget{Server: server, Stream: stream}}
	}
}
