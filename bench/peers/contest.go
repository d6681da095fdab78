package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// job is a piece of work that does nothing; n is all that it carries.
type job struct {
	n   int
	due time.Time
}

// subject is a scheduler with its servers, ready for work. A queue is a set of jobs apart from others.
type subject interface {
	// put stores a job and returns when it is acknowledged.
	put(ctx context.Context, queue string, j job) error
	// putMany stores many jobs in one call, the fastest way there is. The error is errors.ErrUnsupported if
	// there is none.
	putMany(ctx context.Context, queue string, jobs []job) error
	// work calls handle for every run of a queue until stop is called. It is called once.
	work(ctx context.Context, queue string, handle func(n int)) (stop func() error, err error)
	// unfinished is how many jobs of a queue are stored and not durably finished.
	unfinished(ctx context.Context, queue string) (int, error)
	// cpu is what the servers have used so far; 0 = unknown.
	cpu() time.Duration
	// close ends the servers.
	close() error
}

// contestant is a scheduler with its settings.
type contestant struct {
	peer     string
	settings string        // default, tuned
	durable  string        // what an acknowledgement means
	batch    int           // jobs to a call of putMany
	ahead    time.Duration // how long before it is due a job must be stored so that the peer can prepare for it
	about    string        // the settings in full
	start    func(ctx context.Context) (subject, string, error)
}

// absent is the error of a contestant whose server is not on this machine.
type absent struct{ why string }

// Error implements error.
func (a absent) Error() string { return a.why }

// isAbsent reports whether a contestant is to be left out.
func isAbsent(err error) bool {
	_, ok := errors.AsType[absent](err)
	return ok
}

// contestants are all, in the order of the table.
func contestants(carillonBinary string) []contestant {
	all := carillonContestants(carillonBinary)
	all = append(all, riverContestants()...)
	all = append(all, asynqContestants()...)
	return append(all, daprContestants(carillonBinary)...)
}

// pick leaves the contestants of one peer; all if the name is empty.
func pick(all []contestant, peer string) ([]contestant, error) {
	if peer == "" {
		return all, nil
	}
	var picked []contestant
	for _, c := range all {
		if c.peer == peer {
			picked = append(picked, c)
		}
	}
	if len(picked) == 0 {
		return nil, fmt.Errorf("there is no peer %q", peer)
	}
	return picked, nil
}
