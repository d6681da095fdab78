package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// fenceSQL locks the owner of partition 3 as a write does.
const fenceSQL = "SELECT 1 FROM carillon_owners WHERE partition = 3 FOR SHARE"

// session is a raw connection under a name.
func session(t *testing.T, url, name string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url+"&application_name="+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // the server may have ended it
	return c
}

// lives reports whether the session can still be used.
func lives(t *testing.T, c *pgx.Conn) bool {
	t.Helper()
	return c.Ping(t.Context()) == nil
}

// halfSent sends the first statement of a group and not its end, as a node does that is stopped in the middle
// of it.
func halfSent(t *testing.T, c *pgx.Conn) {
	t.Helper()
	p := c.PgConn().StartPipeline(t.Context())
	p.SendQueryParams(fenceSQL, nil, nil, nil, nil)
	p.SendFlushRequest()
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.GetResults(); err != nil { // it holds the lock
		t.Fatal(err)
	}
}

// lock takes the lock in a transaction that it leaves open.
func lock(t *testing.T, c *pgx.Conn) {
	t.Helper()
	if _, err := c.Exec(t.Context(), "BEGIN; "+fenceSQL); err != nil {
		t.Fatal(err)
	}
}

// expired is a store of which a node that is gone has held partition 3, and holds 4 for long.
func expired(t *testing.T) (url string, s *postgres.Store) {
	t.Helper()
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	url = server.Database(t)
	s = open(t, url, store.Options{})
	for partition, ttl := range map[int]time.Duration{3: time.Microsecond, 4: time.Hour} {
		if terms, err := s.Leaser().Claim(t.Context(), "gone", []int{partition}, ttl); err != nil ||
			terms[0].IsZero() {
			t.Fatal(terms, err)
		}
	}
	return url, s
}

// TestClaimEndsBlockers has nodes stopped in the middle of a group, or of a transaction: whoever claims gets
// their partition.
func TestClaimEndsBlockers(t *testing.T) {
	for name, block := range map[string]func(t *testing.T, c *pgx.Conn){"half a group": halfSent,
		"an open transaction": lock} {
		t.Run(name, func(t *testing.T) {
			url, s := expired(t)
			first, second := session(t, url, "carillon"), session(t, url, "carillon")
			bystander := session(t, url, "carillon") // waits for its client too, and blocks nobody
			lock2 := "BEGIN; SELECT 1 FROM carillon_owners WHERE partition = 4 FOR SHARE"
			if _, err := bystander.Exec(t.Context(), lock2); err != nil {
				t.Fatal(err)
			}
			block(t, first)
			block(t, second)
			claims := make(chan error)
			for i := range 2 { // of which one waits for the other
				go func() {
					_, err := s.Leaser().Claim(t.Context(), fmt.Sprint("node-", i), []int{3, 4}, time.Hour)
					claims <- err
				}()
			}
			if err := errors.Join(<-claims, <-claims); err != nil {
				t.Fatal(err)
			}
			owners, err := s.Leaser().Owners(t.Context())
			if err != nil || len(owners) != 2 || owners[0].Node == "gone" || owners[1].Node != "gone" {
				t.Errorf("owners: %+v, %v", owners, err)
			}
			if !lives(t, bystander) {
				t.Error("a session that blocked nobody was ended")
			}
		})
	}
}

// TestClaimLeavesOthers has somebody else hold the lock, who is no node: it is not ours to end.
func TestClaimLeavesOthers(t *testing.T) {
	url, s := expired(t)
	operator := session(t, url, "psql")
	lock(t, operator)
	if terms, err := s.Leaser().Claim(t.Context(), "node", []int{3}, time.Hour); err == nil {
		t.Errorf("claimed what is locked: %v", terms)
	}
	if !lives(t, operator) {
		t.Error("the session of somebody else was ended")
	}
	if _, err := operator.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	terms, err := s.Leaser().Claim(t.Context(), "node", []int{3}, time.Hour)
	if err != nil || terms[0] == (store.Term{}) {
		t.Errorf("a claim afterwards: %v, %v", terms, err)
	}
}

// TestLeaserAfterRestart has every connection of a store broken: its leaser does not fail for that.
func TestLeaserAfterRestart(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	if _, err := s.Leaser().Claim(t.Context(), "node", []int{3}, time.Hour); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'carillon'")
		terms, err := s.Leaser().Claim(t.Context(), "node", []int{3}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'carillon'")
		if lost, err := s.Leaser().Renew(t.Context(), "node", []store.Holding{{Partition: 3, Term: terms[0]}},
			time.Hour); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
	}
}
