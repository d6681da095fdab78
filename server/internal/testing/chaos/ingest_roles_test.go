package chaos_test

import (
	"strings"

	"github.com/carillonhq/carillon/server/internal/ingest"
)

// told is what a producer has told a job, in stages; a stage is sent when the broker has the one before.
type told struct {
	role string
	sent int // stages
	// What there is in the end.
	note    string // of the job
	runs    int
	gone    bool
	refused []string // events that are dead letters, by their ids
}

// command is a message: one of a stage.
type command struct{ id, typ, data string }

const (
	dueNow   = `{"target": {"worker": {"queue": "q"}}, "note": "1"}`
	dueLater = `{"due_time": "1000h", "target": {"worker": {"queue": "q"}}, "note": "1"}`
)

// roles are what jobs are told, by stages. What has an id that was there before comes a second time.
var roles = map[string][]command{
	// It runs at once, and is gone then.
	"now": {{"a", ingest.JobPut, dueNow}, {"a", ingest.JobPut, dueNow}, {"a", ingest.JobPut, dueNow}},
	// It is put twice, and then as at first.
	"later": {{"a", ingest.JobPut, dueLater}, {"b", ingest.JobPut, strings.Replace(dueLater, `"1"`, `"2"`, 1)},
		{"a", ingest.JobPut, dueLater}},
	"trigger": {{"a", ingest.JobCreate, dueLater}, {"b", ingest.JobTrigger, ""}, {"b", ingest.JobTrigger, ""},
		{"c", ingest.JobTrigger, ""}, {"a", ingest.JobCreate, dueLater}},
	"gone": {{"a", ingest.JobCreate, dueLater}, {"b", ingest.JobDelete, ""}, {"a", ingest.JobCreate, dueLater},
		{"b", ingest.JobDelete, ""}},
	// Its trigger comes before it.
	"early":     {{"a", ingest.JobTrigger, ""}, {"b", ingest.JobCreate, dueLater}},
	"no type":   {{"a", "com.example.other", dueNow}},
	"no fields": {{"a", ingest.JobPut, `{"due_tim": "1h"}`}},
	"no event":  {{"", "", "plain text"}},
}

// order is that of roles in a lot.
var order = []string{"now", "later", "trigger", "gone", "early", "now", "trigger", "later", "gone", "no type",
	"no fields", "no event"}

// newTold is a job of a role.
func newTold(role, name string) *told {
	w := &told{role: role, note: "1"}
	switch role {
	case "now":
		w.runs, w.gone = 1, true
	case "later":
		w.note = "2"
	case "trigger":
		w.runs = 2
	case "gone":
		w.gone = true
	case "early":
		w.refused = []string{name + "/a"}
	case "no event":
		w.gone, w.refused = true, []string{"plain text " + name}
	default:
		w.gone, w.refused = true, []string{name + "/a"}
	}
	return w
}
