package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/worker"
)

// paceQueue is the queue of the jobs that run all the time.
const paceQueue = "pace"

// pace is jobs that nobody changes, each of which runs every second, and a worker that only succeeds: so many
// runs a second, whatever else goes on.
type pace struct {
	jobs int
	seen atomic.Int64 // attempts
}

// pacer is the name of its worker.
const pacer = "pacer"

// put puts the jobs, with all combinations of overlap and misfire.
func (p *pace) put(u *user) (err error) {
	for i := range p.jobs {
		out := u.dice.common(fmt.Sprintf("recurring/pace/%d", i), "")
		out.aim(false, "", paceQueue)
		out.job.Schedule = "@every 1s"
		out.spec.Schedule = out.job.Schedule
		err = errors.Join(err, u.put(out.rules(i)))
	}
	return err
}

// worker returns the worker of the jobs.
func (p *pace) worker(c carillon.Work, record *checker.Recorder, book *deliveries.Book) *worker.Worker {
	w := worker.New(c, worker.Options{ID: pacer, Concurrency: 2 * p.jobs, Grace: 5 * time.Second})
	worker.Handle(w, paceQueue, func(_ context.Context, run carillon.Run, _ []byte) error {
		p.seen.Add(1)
		a := attemptOf(&run, pacer)
		record.Attempt(a)
		place := book.Saw(streamed(&a))
		record.Sent(checker.Result{RunID: run.ID, Token: run.Token, Number: run.Attempt, Kind: checker.Success})
		book.Answered(place, deliveries.Success, time.Now())
		return nil
	})
	return w
}
