package embedded_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/loglines"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
)

// actions returns the actions of all lines with a text, in order.
func actions(lines *loglines.Lines, text string) (all []string) {
	for _, line := range lines.With(text) {
		_, after, _ := strings.Cut(line, "audit.action=")
		action, _, _ := strings.Cut(after, " ")
		all = append(all, action)
	}
	return all
}

// reads are the methods that leave no entry: they change nothing, or a run tells of what they do.
var reads = map[string]bool{"GetJob": true, "ListJobs": true, "ListRuns": true, "GetRun": true, "CompleteRun": true,
	"GetBackfill": true, "ListBackfills": true, "ListTimes": true, "GetNamespace": true, "ListNamespaces": true, "Watch": true,
	"GetCalendar": true, "ListCalendars": true, "GetPayload": true, "Connect": true, "ListQueues": true, "ListWorkers": true}

// TestWhatAProgramDoesIsRecorded: every method that changes something leaves an entry with the program as who
// has called it, whether it succeeds or not. A method of which nobody has said that it reads is one.
func TestWhatAProgramDoesIsRecorded(t *testing.T) {
	for _, to := range []string{"log", "store"} {
		lines := &loglines.Lines{}
		s, err := embedded.Open(t.Context(), "memory:", embedded.Options{Partitions: 2,
			Audit: embedded.Audit{To: to, Log: slog.New(slog.NewTextHandler(lines, nil))}})
		if err != nil {
			t.Fatal(err)
		}
		job := carillon.Job{Name: "a/b", Schedule: "@daily", Target: carillon.WorkerQueue("q"), Data: carillon.JSON("S3CRET")}
		if _, err := s.PutJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		called := 0
		for what, in := range map[reflect.Type]any{reflect.TypeFor[carillon.Scheduler](): s, reflect.TypeFor[carillon.Queues](): s.Queues()} {
			for m := range what.Methods() {
				if reads[m.Name] {
					continue
				}
				called++
				args := []reflect.Value{reflect.ValueOf(t.Context())}
				for k := 1; k < m.Type.NumIn() && !(m.Type.IsVariadic() && k == m.Type.NumIn()-1); k++ {
					arg := reflect.Zero(m.Type.In(k))
					if m.Type.In(k).Name() == "Reader" {
						arg = reflect.ValueOf(strings.NewReader("S3CRET"))
					}
					args = append(args, arg)
				}
				reflect.ValueOf(in).MethodByName(m.Name).Call(args)
			}
		}
		if _, err := s.DeleteJob(t.Context(), carillon.Key{Namespace: "default", Name: "a/b"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := actions(lines, "audit.resource=a/b audit.outcome=ok"); fmt.Sprint(got) != "[PutJob DeleteJob]" {
			t.Errorf("%s: %v", to, got)
		}
		ended := len(actions(lines, "audit.principal=program "))
		begun := len(actions(lines, "audit.outcome=begun"))
		if ended-begun != called+2 || called < 20 {
			t.Errorf("%s: %d entries for %d calls: %v", to, ended-begun, called+2, actions(lines, "audit"))
		}
		if found := actions(lines, "S3CRET"); len(found) > 0 {
			t.Errorf("%s: values in %v", to, found)
		}
	}
}
