package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverSettings are what River lets its users tune; zero is its default. Its completer works in batches in
// any case, and how often it looks for scheduled jobs, every 5 s and as far ahead, cannot be set.
type riverSettings struct {
	connections  int32
	workers      int
	cooldown     time.Duration
	pollInterval time.Duration
}

func riverContestants() []contestant {
	c := func(name, about string, s riverSettings, batch int) contestant {
		return contestant{peer: "River", settings: name, durable: "fsync before the acknowledgement", batch: batch,
			ahead: 6 * time.Second, about: fmt.Sprintf("%s, InsertManyFast of %d", about, batch),
			start: func(ctx context.Context) (subject, string, error) { return startRiver(ctx, s) }}
	}
	return []contestant{
		c("default", "4 connections, 100 workers, FetchCooldown 100 ms, FetchPollInterval 1 s",
			riverSettings{workers: 100}, 256),
		c("tuned", "64 connections, 5,000 workers, FetchCooldown 5 ms, FetchPollInterval 20 ms",
			riverSettings{connections: callers, workers: 5_000, cooldown: 5 * time.Millisecond,
				pollInterval: 20 * time.Millisecond}, 1_000),
	}
}

// riverArgs are the arguments of a job.
type riverArgs struct {
	N int `json:"n"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "nothing" }

// riverOnPostgres is River's client and a PostgreSQL server of its own.
type riverOnPostgres struct {
	*server
	settings riverSettings
	pool     *pgxpool.Pool
	inserter *river.Client[pgx.Tx]
}

func startRiver(ctx context.Context, s riverSettings) (subject, string, error) {
	postgres, url, version, err := startPostgres(ctx)
	if err != nil {
		return nil, "", err
	}
	r := &riverOnPostgres{server: postgres, settings: s}
	if err := r.open(ctx, url); err != nil {
		return nil, "", errors.Join(err, r.close())
	}
	return r, "River " + moduleVersion("github.com/riverqueue/river") + " on " + version, nil
}

// open connects and makes River's tables.
func (r *riverOnPostgres) open(ctx context.Context, url string) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = max(config.MaxConns, r.settings.connections)
	if r.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: quietly()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	r.inserter, err = river.NewClient(riverpgxv5.New(r.pool), &river.Config{Logger: quietly()})
	return err
}

// quietly logs nothing.
func quietly() *slog.Logger { return slog.New(slog.DiscardHandler) }

// insertOptions leave the time out of a job that is due: River then has it available at once.
func insertOptions(queue string, j job) *river.InsertOpts {
	o := &river.InsertOpts{Queue: queue}
	if j.due.After(time.Now()) {
		o.ScheduledAt = j.due
	}
	return o
}

func (r *riverOnPostgres) put(ctx context.Context, queue string, j job) error {
	_, err := r.inserter.Insert(ctx, riverArgs{j.n}, insertOptions(queue, j))
	return err
}

func (r *riverOnPostgres) putMany(ctx context.Context, queue string, jobs []job) error {
	params := make([]river.InsertManyParams, 0, len(jobs))
	for _, j := range jobs {
		params = append(params, river.InsertManyParams{Args: riverArgs{j.n}, InsertOpts: insertOptions(queue, j)})
	}
	_, err := r.inserter.InsertManyFast(ctx, params)
	return err
}

func (r *riverOnPostgres) work(ctx context.Context, queue string, handle func(n int)) (func() error, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, j *river.Job[riverArgs]) error {
		handle(j.Args.N)
		return nil
	}))
	c, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Logger:            quietly(),
		Queues:            map[string]river.QueueConfig{queue: {MaxWorkers: r.settings.workers}},
		Workers:           workers,
		FetchCooldown:     r.settings.cooldown,
		FetchPollInterval: r.settings.pollInterval,
	})
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return c.Stop(context.WithoutCancel(ctx)) }, nil
}

// unfinished names the states so that an index answers: River keeps what is completed for a day.
func (r *riverOnPostgres) unfinished(ctx context.Context, queue string) (n int, err error) {
	const count = `SELECT count(*) FROM river_job WHERE queue = $1 AND state IN ('available', 'pending', 'retryable', 'running', 'scheduled')`
	err = r.pool.QueryRow(ctx, count, queue).Scan(&n)
	return n, err
}

func (r *riverOnPostgres) close() error {
	if r.pool != nil {
		r.pool.Close()
	}
	return r.server.close()
}
