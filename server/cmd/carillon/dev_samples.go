package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

// The sample jobs, and the queue of the sample worker.
const (
	devQueue      = "dev"
	sampleOnce    = "samples/once"
	sampleCron    = "samples/every-10-seconds"
	sampleFlaky   = "samples/fails-twice"
	sampleWebhook = "samples/webhook"
)

// putSamples puts the sample jobs. Existing ones go on where they were, except the one-shot, which is
// finished, and the webhook, whose sink has another address after each start.
func putSamples(ctx context.Context, jobs carillon.Jobs, sink string) error {
	queue := carillon.WorkerQueue(devQueue)
	absent := []carillon.Job{
		{Name: sampleCron, Schedule: "*/10 * * * * *", Target: queue,
			Data: carillon.JSON(map[string]string{"say": "ten seconds have passed"})},
		{Name: sampleFlaky, Schedule: "@every 20s", Due: carillon.In(6 * time.Second), Target: queue,
			FailurePolicy: carillon.Constant(2 * time.Second).WithMaxRetries(3), Note: "its first two attempts fail"},
	}
	for _, job := range absent {
		if _, err := jobs.PutJob(ctx, job, carillon.IfAbsent()); err != nil &&
			!errors.Is(err, carillon.AlreadyExists) {
			return fmt.Errorf("sample %s: %w", job.Name, err)
		}
	}
	for _, job := range []carillon.Job{
		{Name: sampleOnce, Due: carillon.In(3 * time.Second), Target: queue, Data: carillon.JSON("hello")},
		{Name: sampleWebhook, Schedule: "5/15 * * * * *", Target: carillon.HTTP(sink),
			Data: carillon.JSON(map[string]int{"x": 1})},
	} {
		if _, err := jobs.PutJob(ctx, job); err != nil {
			return fmt.Errorf("sample %s: %w", job.Name, err)
		}
	}
	return nil
}

// newSampleWorker returns a worker for the queue of the samples.
func newSampleWorker(work carillon.Work, lines *runLines, log *slog.Logger) *worker.Worker {
	w := worker.New(work, worker.Options{ID: "sample", Log: log})
	worker.Handle(w, devQueue, func(_ context.Context, run carillon.Run, in carillon.Data) error {
		var err error
		if run.Job == sampleFlaky && run.Attempt <= 2 {
			err = fmt.Errorf("attempt %d fails on purpose", run.Attempt)
		}
		lines.print(runLine{job: run.Job, attempt: run.Attempt, late: time.Since(run.Due), target: "worker",
			data: string(in.Bytes), err: err})
		return err
	})
	return w
}

// startSink starts an HTTP server inside this process for the sample webhook; end ends it.
func startSink(lines *runLines) (url string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second}
	server.Handler = http.HandlerFunc(func(_ http.ResponseWriter,
		req *http.Request) {
		lines.print(webhookLine(req))
	})
	go server.Serve(l)                  //nolint:errcheck // it ends when it is closed
	end = func() { _ = server.Close() } // nobody is served any more
	return "http://" + l.Addr().String() + "/", end, nil
}

// webhookLine reads a run from the headers of a call.
func webhookLine(req *http.Request) runLine {
	line := runLine{job: req.Header.Get("Ce-Subject"), target: "http"}
	line.attempt, _ = strconv.Atoi(req.Header.Get("Carillon-Attempt"))
	if t, err := time.Parse(time.RFC3339Nano, req.Header.Get("Carillon-Scheduled-Time")); err == nil {
		line.late = time.Since(t)
	}
	data, _ := io.ReadAll(io.LimitReader(req.Body, 200)) // as much as fits on a line
	line.data = string(data)
	return line
}
