package postgres_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// statements are what docs/stores.md shows as SQL.
func statements(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split(string(text), "```") {
		if sql, ok := strings.CutPrefix(part, "sql\n"); ok && i%2 == 1 {
			for one := range strings.SplitSeq(strings.TrimSpace(sql), ";") {
				if one = strings.TrimSpace(one); one != "" {
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// What the documentation shows to operators runs, and a user with the rights that it names is enough for a
// node.
func TestDocumentedSQL(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	url := server.Database(t)
	asNode := strings.Replace(url, "postgres@", "carillon_node@", 1)
	server.Exec(t, "postgres", "CREATE ROLE early LOGIN")
	if _, err := postgres.Open(t.Context(), strings.Replace(url, "postgres@", "early@", 1),
		store.Options{}); err == nil ||
		!strings.Contains(err.Error(), "a user who may") {
		t.Errorf("a user who may not make tables: %v", err)
	}
	if _, err := postgres.Open(t.Context(), url+"&search_path=nowhere", store.Options{}); err == nil ||
		!strings.Contains(err.Error(), "CREATE SCHEMA") {
		t.Errorf("a schema that is not there: %v", err)
	}
	s := open(t, url, store.Options{})
	shard, _ := holding(t, s)
	put(t, shard, 1)
	c := session(t, url, "psql")
	all := statements(t)
	if len(all) < 10 {
		t.Fatalf("only %d statements", len(all))
	}
	for _, sql := range all {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	node := open(t, asNode, store.Options{})
	shard, held := holding(t, node)
	if outcome := put(t, shard, 2); outcome != store.Applied {
		t.Errorf("a write: %d", outcome)
	}
	l := node.Leaser()
	if err := l.Join(t.Context(), store.Member{ID: "n", Nonce: 1}, time.Minute); err != nil {
		t.Error(err)
	}
	if err := l.Leave(t.Context(), "n", 1); err != nil {
		t.Error(err)
	}
	if err := l.Release(t.Context(), "node", []store.Holding{held}); err != nil {
		t.Error(err)
	}
	rows, _ := c.Query(t.Context(), `SELECT relname FROM pg_class WHERE relname LIKE 'carillon%' AND relkind IN ('r', 'v') AND obj_description(oid) IS NULL`)
	if bare, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(bare) > 0 {
		t.Errorf("nobody says what they hold: %q, %v", bare, err)
	}
}
