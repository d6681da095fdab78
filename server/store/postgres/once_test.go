package postgres_test

import (
	"net"
	"net/url"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
)

// linked puts a link between a store and its server; the URL goes through it.
func linked(t *testing.T, address string) (string, *link.Link) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	k, err := link.Listen(net.JoinHostPort(u.Hostname(), u.Port()), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	u.Host = k.Address()
	return u.String(), k
}

// TestAWriteIsSentOnce loses the answer of a write and its connection: the driver does not send it again, and
// the outcome is unknown. Each execution of the statement, whether it is committed or not, takes a number of
// the sequence.
func TestAWriteIsSentOnce(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	direct := server.Database(t)
	through, k := linked(t, direct)
	s := open(t, through, store.Options{})
	shard := own(t, s, 3)
	if outcome := put(t, shard, 0); outcome != store.Applied {
		t.Fatalf("outcome %d", outcome)
	}
	c := session(t, direct, "observer")
	for _, sql := range []string{
		"CREATE SEQUENCE writes",
		"CREATE FUNCTION written() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('writes'); RETURN NULL; END $$",
		"CREATE TRIGGER written AFTER INSERT ON carillon_jobs FOR EACH STATEMENT EXECUTE FUNCTION written()",
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	k.CutWay(link.Back, link.Broken)
	if outcome := put(t, shard, 1); outcome != store.Unknown {
		t.Errorf("outcome %d", outcome)
	}
	k.Heal()
	if n := value[int64](t, c, "SELECT last_value FROM writes WHERE is_called"); n != 1 {
		t.Errorf("the write was executed %d times", n)
	}
}
