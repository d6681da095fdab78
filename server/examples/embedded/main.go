// Command embedded runs the scheduler inside the program: a reminder is put, kept in a folder, and delivered
// to a handler of this process a second later.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	_ "github.com/carillonhq/carillon/server/store/pebble" // the stores that it opens: folders
	"github.com/carillonhq/carillon/worker"
)

// Reminder is the payload.
type Reminder struct {
	User int
	Text string
}

func main() {
	if err := run(context.Background(), os.Stdout, "./reminders-data"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run delivers one reminder and ends.
func run(ctx context.Context, out io.Writer, dir string) (err error) {
	s, err := embedded.Open(ctx, "pebble:"+dir, embedded.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()

	_, err = s.PutJob(ctx, carillon.Job{
		Name:   "reminders/42",
		Due:    carillon.In(time.Second),
		Target: carillon.WorkerQueue("reminders"),
		Data:   carillon.JSON(Reminder{User: 42, Text: "water the plants"}),
	})
	if err != nil {
		return err
	}

	ctx, done := context.WithCancel(ctx)
	w := worker.New(s, worker.Options{Concurrency: 10})
	worker.Handle(w, "reminders", func(_ context.Context, run carillon.Run, in Reminder) error {
		fmt.Fprintf(out, "user %d: %s (attempt %d)\n", in.User, in.Text, run.Attempt)
		done() // one is enough for an example
		return nil
	})
	return w.Run(ctx)
}
