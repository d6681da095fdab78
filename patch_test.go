package carillon_test

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
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
			t.Errorf("%s: %v, %q of type %q, want %q of %q", c.fields, err, got.Data.Bytes, got.Data.ContentType, c.want, c.typ)
		}
	}
	bad, err := carillon.Patch{Fields: []string{"data"}, Job: carillon.Job{Data: carillon.JSON(make(chan int))}}.Apply(validJob())
	if err != nil {
		t.Fatal(err)
	}
	if got := fieldOf(bad.Validate(carillon.DefaultBounds())); got != "data" {
		t.Errorf("data that cannot be written was taken; the error is about %q", got)
	}
}

func TestPatchOfNoSuchField(t *testing.T) {
	for _, field := range []string{"", "colour", "Schedule", "timeZone", "target.http", "namespace", "name", "status",
		strings.Repeat("x", 1000), strings.Repeat("語", 1000), strings.Repeat("\xff", 100)} {
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
