package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/worker"
)

// Import is the payload of the examples.
type Import struct{ Rows int }

// errLocked says that somebody else has the table.
var errLocked = errors.New("locked")

// A handler that says how far it is, and comes back later when it cannot go on.
func ExampleProgress() {
	s, err := client.Dial("localhost:7070")
	if err != nil {
		fmt.Println(err)
		return
	}
	w := worker.New(s, worker.Options{})
	worker.Handle(w, "imports", func(ctx context.Context, _ carillon.Run, in Import) error {
		for row := range in.Rows {
			if err := importRow(ctx, row); errors.Is(err, errLocked) {
				return worker.Reschedule(time.Now().Add(time.Hour)) // not a failure: no attempt is used up
			} else if err != nil {
				return err
			}
			if err := worker.Progress(ctx, 100*float64(row)/float64(in.Rows), "rows"); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(w.Run(context.Background()), s.Close()); err != nil {
		fmt.Println(err)
	}
}

func importRow(context.Context, int) error { return nil }
