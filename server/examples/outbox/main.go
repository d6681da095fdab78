// Command outbox stores orders in PostgreSQL and, in the same transaction, jobs that remind of them: an order
// that is rolled back has no reminder. It needs a database and a node that reads its outbox:
//
//	carillon outbox install --url postgres://localhost/shop
//	carillon serve --store pebble:./carillon-data --outbox shop=postgres://localhost/shop
//	go run ./server/examples/outbox postgres://localhost/shop
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/outbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	url := "postgres://localhost/shop"
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	err := run(ctx, os.Stdout, url)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run stores two orders, and cancels one.
func run(ctx context.Context, out io.Writer, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, what text)"); err != nil {
		return err
	}
	for id, what := range []string{"tea", "coffee"} {
		if err := order(ctx, conn, id, what); err != nil {
			return err
		}
		fmt.Fprintln(out, "ordered", what)
	}
	if err := order(ctx, conn, 1, "again"); err == nil {
		return errors.New("two orders have one id")
	}
	fmt.Fprintln(out, "an order was refused, and has no reminder")
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM orders WHERE id = 0"); err != nil {
			return err
		}
		_, err := outbox.DeletePgx(ctx, tx, carillon.Key{Name: "reminders/0"})
		return err
	})
}

// order stores an order and a job that reminds of it, both or neither.
func order(ctx context.Context, conn *pgx.Conn, id int, what string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := outbox.PutPgx(ctx, tx, carillon.Job{
			Name:   fmt.Sprint("reminders/", id),
			Due:    carillon.In(time.Hour),
			Target: carillon.WorkerQueue("reminders"),
			Data:   carillon.JSON(map[string]any{"order": id, "what": what}),
		})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2)", id, what)
		return err
	})
}
