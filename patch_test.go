package carillon_test

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
)

func wellEscaped(raw string) bool { _, err := url.Parse(raw); return err == nil }

func TestAGeneratedJobIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := anyJob(t)
		if err := j.Validate(carillon.DefaultBounds()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPatchWithItself: a job patched with any of its own fields is the same job, and valid.
func TestPatchWithItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := anyJob(t)
		fields := rapid.SliceOf(rapid.SampledFrom(carillon.PatchFields())).Draw(t, "fields")
		got, err := carillon.Patch{Fields: fields, Job: j}.Apply(j)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, j) {
			t.Fatalf("patched with its own %v it became %+v", fields, got)
		}
		if err := got.Validate(carillon.DefaultBounds()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPatchChangesExactlyTheNamed: each field of the API changes its own field of the job and no other, and
// all together change every field but the names and the status.
func TestPatchChangesExactlyTheNamed(t *testing.T) {
	from, all := validJob(), map[string]bool{}
	from.ConcurrencyKey, from.DependsOn, from.Status = "k", []string{"x"}, &carillon.JobStatus{}
	for _, field := range carillon.PatchFields() {
		got, err := carillon.Patch{Fields: []string{field}, Job: from}.Apply(carillon.Job{Name: "other"})
		if err != nil {
			t.Fatal(err)
		}
		changed := differing(got, carillon.Job{Name: "other"})
		if len(changed) != 1 {
			t.Errorf("%s changes %v", field, changed)
		}
		for _, c := range changed {
			all[c] = true
		}
	}
	for f := range reflect.TypeFor[carillon.Job]().Fields() {
		patchable := !slices.Contains([]string{"Namespace", "Name", "Status"}, f.Name)
		if all[f.Name] != patchable {
			t.Errorf("%s: some patch changes it: %v, want %v", f.Name, all[f.Name], patchable)
		}
	}
}

// differing are the names of the fields in which two jobs differ.
func differing(a, b carillon.Job) []string {
	var names []string
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range v.NumField() {
		if !reflect.DeepEqual(v.Field(i).Interface(), w.Field(i).Interface()) {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

func TestPatchToTheDefault(t *testing.T) {
	old := validJob()
	got, err := carillon.Patch{Fields: []string{"labels", "timeout"}}.Apply(old)
	if err != nil || got.Labels != nil || got.Timeout != 0 {
		t.Errorf("%v, labels %v, timeout %v", err, got.Labels, got.Timeout)
	}
	if len(old.Labels) == 0 {
		t.Error("the old job was changed")
	}
}

func TestPatchData(t *testing.T) {
	old := carillon.Job{Data: carillon.Bytes([]byte("old"), "text/plain")}
	for _, c := range []struct {
		fields    string
		data      carillon.Data
		want, typ string
	}{
		{"data", carillon.JSON(1), "1", carillon.ContentTypeJSON},
		{"data", carillon.Bytes([]byte("new"), ""), "new", "text/plain"},
		{"content_type", carillon.Bytes([]byte("new"), "text/csv"), "old", "text/csv"},
		{"data,content_type", carillon.Bytes([]byte("new"), ""), "new", ""},
	} {
		got, err := carillon.Patch{Fields: strings.Split(c.fields, ","), Job: carillon.Job{Data: c.data}}.Apply(old)
		if err != nil || string(got.Data.Bytes) != c.want || got.Data.ContentType != c.typ {
			t.Errorf("%s: %v, %q of type %q, want %q of %q", c.fields, err, got.Data.Bytes,
				got.Data.ContentType, c.want, c.typ)
		}
	}
	bad, err := carillon.Patch{Fields: []string{"data"},
		Job: carillon.Job{Data: carillon.JSON(make(chan int))}}.Apply(validJob())
	if err != nil {
		t.Fatal(err)
	}
	if got := fieldOf(bad.Validate(carillon.DefaultBounds())); got != "data" {
		t.Errorf("data that cannot be written was taken; the error is about %q", got)
	}
}

func TestPatchOfNoSuchField(t *testing.T) {
	for _, field := range []string{"", "colour", "Schedule", "timeZone", "target.http", "namespace",
		"name", "status", strings.Repeat("x", 1000), strings.Repeat("語", 1000), strings.Repeat("\xff", 100)} {
		_, err := carillon.Patch{Fields: []string{"note", field}}.Apply(validJob())
		if err == nil {
			t.Errorf("%q was patched", field)
			continue
		}
		if got := fieldOf(err); got != field && len(field) < 100 {
			t.Errorf("%q: the error is about %q", field, got)
		} else if !utf8.ValidString(got) {
			t.Errorf("%q is no text for an answer", got)
		}
	}
}

// policies has each form with all of its fields set, n times as far.
func policies(n int) map[string]carillon.FailurePolicy {
	step := time.Duration(n) * time.Second
	all := map[string]carillon.FailurePolicy{
		"drop": carillon.Drop(), "constant": carillon.Constant(step).WithMaxRetries(uint32(n)),
		"schedule":    carillon.OnSchedule("@" + []string{"daily", "hourly"}[n%2]).WithMaxRetries(uint32(n)),
		"exponential": carillon.Exponential(step).WithMaxRetries(uint32(n)),
	}
	e := all["exponential"]
	e.Factor, e.Max, e.Jitter = float64(n), 100*step, step
	all["exponential"] = e
	return all
}

// partFields are the fields of Go that the last elements of paths stand for.
var partFields = map[string]string{"interval": "Interval", "cron": "Schedule", "initial": "Initial",
	"factor": "Factor", "max": "Max",
	"jitter": "Jitter", "max_retries": "MaxRetries", "on_exhausted": "OnExhausted",
	"runs": "Runs", "keep": "Keep"}

// TestAPatchOfOnePart changes that field of the policy to what is given, or back, and leaves all others.
func TestAPatchOfOnePart(t *testing.T) {
	for _, path := range carillon.PatchParts() {
		words := strings.Split(path, ".")
		for form, policy := range policies(2) {
			if _, isForm := policies(1)[words[1]]; isForm && words[1] != form ||
				path == "failure_policy.max_retries" && form == "drop" {
				continue
			}
			old := carillon.Job{FailurePolicy: policy, History: carillon.History{Runs: 7, Keep: time.Hour}}
			old.FailurePolicy.OnExhausted = carillon.ExhaustedDrop
			given := carillon.Job{FailurePolicy: policies(3)[form],
				History: carillon.History{Runs: 8, Keep: time.Minute}}
			for _, from := range []carillon.Job{given,
				{FailurePolicy: carillon.FailurePolicy{Kind: old.FailurePolicy.Kind}}} {
				got, err := carillon.Patch{Fields: []string{path}, Job: from}.Apply(old)
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				want := old
				for _, at := range []struct{ to, from any }{{&want.FailurePolicy, from.FailurePolicy},
					{&want.History, from.History}} {
					name := partFields[words[len(words)-1]]
					if field := reflect.ValueOf(at.to).Elem().FieldByName(name); field.IsValid() {
						field.Set(reflect.ValueOf(at.from).FieldByName(name))
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s of %s: %+v, not %+v", path, form, got, want)
				}
			}
		}
	}
}

// TestAPatchOfAnotherForm gives the job that form; of the form before only on_exhausted stays, and the
// defaults of a job without a policy count as one.
func TestAPatchOfAnotherForm(t *testing.T) {
	type policy = carillon.FailurePolicy
	const constant, interval = "failure_policy.constant", "failure_policy.constant.interval"
	dead := carillon.Exponential(time.Hour).WithMaxRetries(9)
	dead.OnExhausted = carillon.ExhaustedDead
	ten := carillon.Constant(10 * time.Second)
	tenDead := ten
	tenDead.OnExhausted = carillon.ExhaustedDead
	for name, c := range map[string]struct {
		schedule  string
		old, from policy
		path      string
		want      policy
	}{
		"another form": {"", dead, ten, interval, tenDead},
		"none, of a schedule": {"@daily", policy{}, ten, interval,
			ten.WithMaxRetries(carillon.DefaultRecurringRetries)},
		"none, of a one-shot": {"", policy{}, ten, interval, ten},
		"retries of none, of a schedule": {"@daily", policy{}, policy{}.WithMaxRetries(5),
			"failure_policy.max_retries", carillon.Constant(time.Second).WithMaxRetries(5)},
		"retries of none, of a one-shot": {"", policy{}, policy{}.WithMaxRetries(5),
			"failure_policy.max_retries", carillon.Exponential(0).WithMaxRetries(5)},
		"retries, in a message": {"", ten, carillon.Exponential(0).WithMaxRetries(5),
			"failure_policy.max_retries", ten.WithMaxRetries(5)},
		"the form is taken away": {"", tenDead, policy{}, constant,
			policy{OnExhausted: carillon.ExhaustedDead}},
		"a form that it has not goes away": {"", dead, policy{}, constant, dead},
		"the whole policy":                 {"", dead, ten, "failure_policy", ten},
	} {
		got, err := carillon.Patch{Fields: []string{c.path}, Job: carillon.Job{FailurePolicy: c.from}}.Apply(
			carillon.Job{Schedule: c.schedule, FailurePolicy: c.old})
		if err != nil || !reflect.DeepEqual(got.FailurePolicy, c.want) {
			t.Errorf("%s: %+v, %v, not %+v", name, got.FailurePolicy, err, c.want)
		}
	}
	wrong := carillon.Patch{Fields: []string{interval}, Job: carillon.Job{FailurePolicy: dead}}
	if _, err := wrong.Apply(carillon.Job{}); blamed(err) != interval {
		t.Errorf("a field of a form that is not given: %v", err)
	}
}
