package embedded_test

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	_ "github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/worker"
)

// Reminder is the payload of the example.
type Reminder struct{ User int }

func Example() {
	ctx, leave := context.WithCancel(context.Background())
	s, err := embedded.Open(ctx, "memory:", embedded.Options{}) // "pebble:./data" keeps the jobs
	if err != nil {
		fmt.Println(err)
		leave()
		return
	}
	w := worker.New(s, worker.Options{Concurrency: 10})
	worker.Handle(w, "reminders", func(_ context.Context, run carillon.Run, in Reminder) error {
		fmt.Printf("%s, attempt %d: remind user %d\n", run.Job, run.Attempt, in.User)
		leave() // one is enough for an example
		return nil
	})

	_, err = s.PutJob(ctx, carillon.Job{Name: "reminders/42", Due: carillon.In(time.Millisecond),
		Target: carillon.WorkerQueue("reminders"), Data: carillon.JSON(Reminder{User: 42})})
	if err != nil {
		fmt.Println(err)
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	if err := s.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: reminders/42, attempt 1: remind user 42
}

// A program opens the stores that it imports; this one also imports _ ".../store/postgres".
func ExampleOpen() {
	ctx := context.Background()
	s, err := embedded.Open(ctx, "postgres://app@localhost/jobs", embedded.Options{Partitions: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := s.Close(ctx); err != nil {
			fmt.Println(err)
		}
	}()
	if _, err := s.PutJob(ctx, carillon.Job{Name: "report", Schedule: "@daily",
		Target: carillon.WorkerQueue("reports")}); err != nil {
		fmt.Println(err)
	}
}
