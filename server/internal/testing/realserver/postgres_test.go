package realserver_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// What is committed is there after the server was ended, however it was.
func TestPostgres(t *testing.T) {
	s := realserver.StartPostgres(t)
	url := s.Database(t)
	s.Exec(t, "test_1", "CREATE TABLE words (word text)")
	for _, end := range []func(testing.TB){s.Crash, s.Down} {
		s.Exec(t, "test_1", "INSERT INTO words VALUES ('kept')")
		end(t)
		s.Up(t)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM words").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d words, %v", n, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
