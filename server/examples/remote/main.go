// Command remote uses a node in another process: it puts a job that recurs every second and fails now and
// then, works on its queue until it is interrupted, and removes the job. Start a node first: go run
// ./server/cmd/carillon dev
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/worker"
)

const name, queue = "server/examples/remote", "examples-remote"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	address := "localhost:7070"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	err := run(ctx, os.Stdout, address)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run works until ctx ends.
func run(ctx context.Context, out io.Writer, address string) error {
	c, err := client.Dial(address)
	if err != nil {
		return err
	}
	defer c.Close()

	put, err := c.PutJob(ctx, carillon.Job{
		Name:          name,
		Schedule:      "@every 1s",
		Target:        carillon.WorkerQueue(queue),
		FailurePolicy: carillon.Constant(100 * time.Millisecond).WithMaxRetries(3),
		Data:          carillon.JSON(map[string]string{"greeting": "hello"}),
	})
	if err != nil {
		return err
	}
	for _, w := range put.Warnings {
		fmt.Fprintln(out, "warning:", w)
	}

	w := worker.New(c, worker.Options{})
	worker.Handle(w, queue, func(_ context.Context, run carillon.Run, in map[string]string) error {
		if run.Scheduled.Second()%5 == 0 && run.Attempt == 1 {
			return errors.New("fails now and then, and is tried again under the same id")
		}
		fmt.Fprintf(out, "%s attempt %d: %s\n", run.Scheduled.Format(time.TimeOnly), run.Attempt, in["greeting"])
		return nil
	})
	err = w.Run(ctx) // until ctx ends; what is running is finished
	_, deleted := c.DeleteJob(context.WithoutCancel(ctx),
		carillon.Key{Namespace: carillon.DefaultNamespace, Name: name})
	return errors.Join(err, deleted)
}
