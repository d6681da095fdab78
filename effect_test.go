package carillon_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// ofSchedules are jobs of which one field has no effect without a schedule.
func ofSchedules() map[string]carillon.Job {
	return map[string]carillon.Job{
		"time_zone": {TimeZone: "Europe/London"}, "dst": {DST: carillon.DSTLiteral}, "overlap": {Overlap: carillon.OverlapAllow},
		"misfire": {Misfire: carillon.MisfireSkip}, "catch_up_limit": {CatchUpLimit: 1}, "catch_up_window": {CatchUpWindow: time.Hour},
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
		j := carillon.Job{TimeZone: "Europe/London", Due: carillon.WhenText(due), TTL: carillon.WhenText(ttl), FailurePolicy: p,
			Target: carillon.WorkerQueue("q")}
		return j.Validate(carillon.Bounds{})
	}
	var none carillon.FailurePolicy
	for _, err := range []error{zone("P1D", "", none), zone("P1M", "", none), zone("P1W", "", none), zone(" P1DT1H", "", none), zone("", "P2D", none),
		zone("1h", "P1Y", none), zone("", "", carillon.OnSchedule("0 9 * * *").WithMaxRetries(3))} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, err := range []error{zone("", "", none), zone("PT24H", "", none), zone("24h", "48h", none), zone("P0D", "", none),
		zone("2099-01-01T00:00:00Z", "", none), zone("", "", carillon.Constant(time.Hour))} {
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
				case p.Fields[0] == other && p.Job.Note == "" && p.Job.Schedule == "" && (other != field || p.Job.CatchUpLimit+int(p.Job.CatchUpWindow)+
					int(p.Job.DST)+int(p.Job.Overlap)+int(p.Job.Misfire)+len(p.Job.TimeZone) > 0):
					want = other
				}
				if err := p.ValidatePatched(&old, &j, carillon.Bounds{}); blamed(err) != want || (want == "") != (err == nil) {
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
		"data":                             {Data: carillon.JSON(func() {})},
		"target":                           {Target: carillon.Target{Worker: &carillon.WorkerTarget{}, HTTP: &carillon.HTTPTarget{}}},
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
	daily := carillon.Job{Schedule: "@daily", Due: carillon.WhenText("2026-01-01T00:00:00Z"), Target: carillon.WorkerQueue("q")}
	for _, p := range []carillon.Patch{{Fields: []string{"schedule"}}, {Fields: []string{"schedule", "due_time"}},
		{Fields: []string{"schedule", "note"}, Job: carillon.Job{Due: carillon.In(time.Hour)}}} {
		if j, err := p.Apply(daily); blamed(err) != "schedule" {
			t.Errorf("%v: %+v, %v", p.Fields, j, err)
		}
	}
	at := carillon.Patch{Fields: []string{"schedule", "due_time"}, Job: carillon.Job{Due: carillon.In(time.Hour)}}
	if j, err := at.Apply(daily); err != nil || j.Recurring() || j.Due.String() != "1h0m0s" {
		t.Errorf("%+v, %v", j, err)
	}
	once := carillon.Patch{Fields: []string{"schedule"}}
	if _, err := once.Apply(carillon.Job{}); err != nil {
		t.Errorf("of a one-shot: %v", err)
	}
}
