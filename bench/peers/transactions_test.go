package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/outbox"
)

// BenchmarkTransactions measures transactions that store one row of their own and a job, or a hundred, beside
// those that store the row alone, and one more as a job would be: on one PostgreSQL with its defaults, so each
// commit waits for the disk. Carillon is measured with a node that reads meanwhile and without one. River
// works on nothing.
func BenchmarkTransactions(b *testing.B) {
	ctx := b.Context()
	binary := filepath.Join(b.TempDir(), "carillon")
	build := exec.CommandContext(ctx, "go", "build", "-C", "../..", "-o", binary, "./server/cmd/carillon")
	build.Env = append(os.Environ(), "GOWORK=") // this module is no part of the workspace, and may be built without
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	s, url, _, err := startPostgres(ctx)
	if isAbsent(err) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	r := &riverOnPostgres{server: s, settings: riverSettings{connections: 16}}
	b.Cleanup(func() {
		if err := r.close(); err != nil {
			b.Error(err)
		}
	})
	if err := r.open(ctx, url); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, binary, "outbox", "install", "--url", url).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	if _, err := r.pool.Exec(ctx, `CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text);
		CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job jsonb)`); err != nil {
		b.Fatal(err)
	}
	job := carillon.Job{Due: carillon.In(1e15), Target: carillon.WorkerQueue("q"), Data: carillon.JSON(riverArgs{1})}
	jobs, params := make([]carillon.Job, 100), make([]river.InsertManyParams, 100)
	for i := range jobs {
		jobs[i], params[i] = job, river.InsertManyParams{Args: riverArgs{1}}
	}
	carillonPut := func(ctx context.Context, tx pgx.Tx) error {
		_, err := outbox.PutPgx(ctx, tx, job)
		return err
	}
	carillonMany := func(ctx context.Context, tx pgx.Tx) error {
		_, err := outbox.PutManyPgx(ctx, tx, jobs)
		return err
	}
	for _, connections := range []int{1, 8} {
		bench := func(name string, f func(ctx context.Context, tx pgx.Tx) error) {
			b.Run(fmt.Sprintf("%s/connections=%d", name, connections), func(b *testing.B) {
				inTransactions(b, r.pool, connections, f)
			})
		}
		bench("row", func(context.Context, pgx.Tx) error { return nil })
		bench("row+insert", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO plain (job) VALUES ('{"due_time": "1h", "target": {"worker": {"queue": "q"}}}')`)
			return err
		})
		bench("row+river", func(ctx context.Context, tx pgx.Tx) error {
			_, err := r.inserter.InsertTx(ctx, tx, riverArgs{1}, nil)
			return err
		})
		bench("row+river100", func(ctx context.Context, tx pgx.Tx) error {
			_, err := r.inserter.InsertManyTx(ctx, tx, params)
			return err
		})
		bench("row+river100fast", func(ctx context.Context, tx pgx.Tx) error {
			_, err := r.inserter.InsertManyFastTx(ctx, tx, params)
			return err
		})
		bench("row+carillon,no node", carillonPut)
		bench("row+carillon100,no node", carillonMany)
		if _, err := r.pool.Exec(ctx, "TRUNCATE carillon.outbox"); err != nil {
			b.Fatal(err)
		}
		node := exec.CommandContext(ctx, binary, "serve", "--store", "pebble:"+b.TempDir()+"/store", "--grpc",
			"127.0.0.1:0", "--http", "127.0.0.1:0", "--outbox", "bench="+url)
		if err := node.Start(); err != nil {
			b.Fatal(err)
		}
		bench("row+carillon,node reads", carillonPut)
		bench("row+carillon100,node reads", carillonMany)
		if err := node.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		_ = node.Wait() // it was killed
		if _, err := r.pool.Exec(ctx, "TRUNCATE carillon.outbox, carillon.outbox_done"); err != nil {
			b.Fatal(err)
		}
	}
}

// inTransactions runs f in b.N transactions, each of which stores a row, over a number of connections.
func inTransactions(b *testing.B, pool *pgxpool.Pool, connections int,
	f func(ctx context.Context, tx pgx.Tx) error) {
	work := make(chan struct{})
	failed := make(chan error, connections)
	for range connections {
		go func() {
			var first error
			for range work {
				err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(b.Context(), "INSERT INTO orders (what) VALUES ('tea')"); err != nil {
						return err
					}
					return f(b.Context(), tx)
				})
				if first == nil {
					first = err
				}
			}
			failed <- first
		}()
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	for range connections {
		if err := <-failed; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
}
