package carillon_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
)

// TestAReferenceIsReadAsItIsWritten: its text is the one way to write it.
func TestAReferenceIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ref := carillon.PayloadRef{
			Day:    rapid.Int32Range(0, 2932896).Draw(t, "day"),
			SHA256: sha256.Sum256(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")),
			Size:   rapid.Int64Range(1, carillon.MaxStoredPayload).Draw(t, "size"),
		}
		got, err := carillon.ParsePayloadRef(ref.String())
		if err != nil || got != ref {
			t.Fatalf("%v is read as %v, %v", ref, got, err)
		}
		if !ref.Same(&carillon.PayloadRef{Day: ref.Day + 1, SHA256: ref.SHA256, Size: ref.Size}) {
			t.Fatal("the same bytes of another day are others")
		}
	})
}

func TestADayIsUTC(t *testing.T) {
	at := time.Date(2026, 11, 28, 23, 30, 0, 0, time.FixedZone("", -3600))
	if got := (carillon.PayloadRef{}).On(at).DayText(); got != "2026-11-29" {
		t.Errorf("%v is on %s", at, got)
	}
}

func TestWrongReferences(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	if _, err := carillon.ParsePayloadRef("2026-11-28/" + sum + "/7"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "x", "2026-11-28", sum, "2026-11-28/" + sum, "2026-11-28/" + sum + "/",
		"2026-11-28/" + sum + "/0", "2026-11-28/" + sum + "/-1", "2026-11-28/" + sum + "/07",
		"2026-11-28/" + sum + "/1073741825", "2026-11-28/" + strings.ToUpper(sum) + "/7", "2026-11-28/0a/7",
		"2026-02-30/" + sum + "/7", "1969-12-31/" + sum + "/7", "2026-11-28/" + sum + "/7/", "../" + sum + "/7"} {
		_, err := carillon.ParsePayloadRef(text)
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != "payload" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestAJobHasOnePayload: data or a reference; jobs of Dapr have data.
func TestAJobHasOnePayload(t *testing.T) {
	ref := &carillon.PayloadRef{Day: 20000, Size: 1}
	worker := carillon.WorkerQueue("q")
	for name, c := range map[string]struct {
		job   carillon.Job
		valid bool
	}{
		"a reference": {carillon.Job{Target: worker, Data: carillon.Data{Ref: ref}}, true},
		"both":        {carillon.Job{Target: worker, Data: carillon.Data{Ref: ref, Bytes: []byte("x")}}, false},
		"no size":     {carillon.Job{Target: worker, Data: carillon.Data{Ref: &carillon.PayloadRef{Day: 1}}}, false},
		"of Dapr": {carillon.Job{Name: "dapr/app/a/x", Data: carillon.Data{Ref: ref},
			Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "a"}}}, false},
	} {
		err := c.job.Validate(carillon.DefaultBounds())
		if e, ok := errors.AsType[*carillon.Error](err); c.valid != (err == nil) || !c.valid && (!ok || e.Field != "payload") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAPatchReplacesThePayload, whichever of its two fields it names; one that names neither keeps it.
func TestAPatchReplacesThePayload(t *testing.T) {
	ref := &carillon.PayloadRef{Day: 20000, Size: 1}
	stored := carillon.Job{Note: "old", Data: carillon.Data{Ref: ref, ContentType: "text/plain"}}
	inline := carillon.Job{Data: carillon.Bytes([]byte("x"), "")}
	for _, c := range []struct {
		old, patch carillon.Job
		field      string
		want       carillon.Data
	}{
		{stored, carillon.Job{Note: "new"}, "note", stored.Data},
		{stored, inline, "data", carillon.Bytes([]byte("x"), "text/plain")},
		{inline, stored, "payload", stored.Data},
		{stored, carillon.Job{}, "payload", carillon.Data{ContentType: "text/plain"}},
	} {
		got, err := carillon.Patch{Fields: []string{c.field}, Job: c.patch}.Apply(c.old)
		if err != nil || got.Data.Ref != c.want.Ref || !bytes.Equal(got.Data.Bytes, c.want.Bytes) ||
			got.Data.ContentType != c.want.ContentType {
			t.Errorf("%s: %+v, %v; want %+v", c.field, got.Data, err, c.want)
		}
	}
}
