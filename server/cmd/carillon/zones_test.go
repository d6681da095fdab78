package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

func TestMeantZone(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Argentina/Buenos_Aires", "Europe/Kiev"}
	for text, want := range map[string]string{"Berlin": "Europe/Berlin", "europe/berlin": "Europe/Berlin", "new york": "America/New_York",
		"America/Buenos_Aires": "America/Argentina/Buenos_Aires", "utc": "UTC", "Moon/Base": "", "Europe/Kyiv": "", "": ""} {
		if got := meantZone(text, zones); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestTheNodeJudgesTimeZones: it may know one that this machine does not. What it refuses gets a hint.
func TestTheNodeJudgesTimeZones(t *testing.T) {
	table := t.TempDir() + "/zone.tab"
	if err := os.WriteFile(table, []byte("DE\t+5230+01322\tEurope/Berlin\nUA\t+5026+03031\tEurope/Kiev\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func(was []string) { zoneTables = was }(zoneTables)
	zoneTables = []string{table}
	addr, err := listen(t.Cleanup, knowsZone{}, grpcapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for zone, want := range map[string]string{
		"Europe/Kyyv":   "", // it stands for one that only the node knows
		"Europe/Berlim": `carillon: time_zone: "Europe/Berlim" is unknown; did you mean Europe/Berlin?`,
		"Moon/Base":     `carillon: time_zone: "Moon/Base" is unknown`,
		"Berlin":        `carillon: --time-zone: there is no time zone "Berlin"; did you mean Europe/Berlin?`,
	} {
		var errs strings.Builder
		execute([]string{"job", "patch", "a", "--time-zone", zone, "--server", addr}, app{out: io.Discard, errs: &errs})
		if got, _, _ := strings.Cut(errs.String(), "\n"); got != want {
			t.Errorf("%s: %q, want %q", zone, got, want)
		}
	}
	var errs strings.Builder
	execute([]string{"import", "crontab", "-", "--worker", "q", "--time-zone", "Europe/Berlim"},
		app{in: strings.NewReader("0 9 * * * run\n"), out: io.Discard, errs: &errs})
	if want := "did you mean Europe/Berlin?"; !strings.Contains(errs.String(), want) {
		t.Errorf("import: %q, want %s", errs.String(), want)
	}
	errs.Reset()
	execute([]string{"job", "put", "a", "--worker", "q", "--at", "18:30", "--time-zone", "Europe/Berlim", "--server", addr},
		app{out: io.Discard, errs: &errs})
	if want := `which a time such as "18:30" needs; did you mean Europe/Berlin?`; !strings.Contains(errs.String(), want) {
		t.Errorf("a time in it: %q, want %s", errs.String(), want)
	}
}

// knowsZone is a Scheduler that knows one zone, which no machine knows.
type knowsZone struct{ carillon.Scheduler }

func (knowsZone) PatchJob(_ context.Context, key carillon.Key, p carillon.Patch) (carillon.PutResult, error) {
	if p.Job.TimeZone != "Europe/Kyyv" {
		return carillon.PutResult{}, carillon.Errorf(carillon.InvalidArgument, "time_zone", "%q is unknown", p.Job.TimeZone)
	}
	return carillon.PutResult{Job: carillon.Job{Namespace: key.Namespace, Name: key.Name, TimeZone: p.Job.TimeZone}}, nil
}
