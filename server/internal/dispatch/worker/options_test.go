package worker

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

func TestHello(t *testing.T) {
	d := newFakeSink(Options{})
	for field, h := range map[string]carillon.Hello{
		"queues":     {},
		"queues ":    {Queues: []string{""}},
		"queues  ":   {Queues: []string{"a", "b", "a"}},
		"queues   ":  {Queues: make([]string, MaxQueues+1)},
		"namespace":  {Namespace: "No!", Queues: []string{"q"}},
		"worker_id":  {Queues: []string{"q"}, WorkerID: strings.Repeat("w", MaxWorkerID+1)},
		"labels":     {Queues: []string{"q"}, Labels: map[string]string{"k": strings.Repeat("v", MaxLabelsBytes)}},
		"worker_id ": {Queues: []string{"q"}, WorkerID: "\xff"},
		"labels ":    {Queues: []string{"q"}, Labels: map[string]string{"\xff": "v"}},
		"version":    {Queues: []string{"q"}, Version: strings.Repeat("v", MaxVersion+1)},
		"version ":   {Queues: []string{"q"}, Version: "\xff"},
		"labels  ":   {Queues: []string{"q"}, Labels: map[string]string{"k": "\xff"}},
	} {
		_, err := d.hub.Connect(ctx, h)
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.InvalidArgument || e.Field != strings.TrimSpace(field) {
			t.Errorf("%q: %v", field, err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := d.hub.Connect(gone, carillon.Hello{Queues: []string{"q"}}); !errors.Is(err, carillon.Canceled) {
		t.Error(err)
	}
	if _, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}}); err != nil {
		t.Fatal(err)
	}
	if w := d.hub.Workers(); len(w) != 1 || len(w[0].ID) < 10 {
		t.Errorf("%+v", w)
	}
}
