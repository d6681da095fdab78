package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestTextThatIsNotUTF8 is refused by the same field in the same process and over gRPC, and certainly has
// changed nothing.
func TestTextThatIsNotUTF8(t *testing.T) {
	const bad = "caf\xe9"
	everywhere(t, func(w *world) {
		for field, j := range map[string]carillon.Job{
			"name": {Name: bad}, "schedule": {Schedule: bad}, "time_zone": {Schedule: "@daily", TimeZone: bad}, "note": {Note: bad},
			"labels": {Labels: map[string]string{"a": bad}}, "metadata": {Metadata: map[string]string{bad: "a"}},
			"concurrency_key": {ConcurrencyKey: bad}, "target.worker.queue": {Target: carillon.WorkerQueue(bad)},
		} {
			j.Due = carillon.In(time.Hour)
			if j.Target.Worker == nil {
				j.Target = carillon.WorkerQueue(queue)
			}
			_, err := w.sched.PutJob(w.t.Context(), j)
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.InvalidArgument || e.Field != field || e.Unknown {
				w.t.Errorf("%s: %v", field, err)
			}
		}
		_, err := w.sched.GetJob(w.t.Context(), key(bad))
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != "name" {
			w.t.Errorf("get: %v", err)
		}
		_, err = w.sched.Connect(w.t.Context(), carillon.Hello{Queues: []string{bad}, WorkerID: "me"})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || !strings.HasPrefix(e.Field, "queues") {
			w.t.Errorf("connect: %v", err)
		}
	})
}
