package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// TestTLS connects by TLS to a server of a private authority.
func TestTLS(t *testing.T) {
	a := testca.New(t)
	certificate := a.File
	server := realserver.StartPostgresTLS(t, a.Issue(nil, "127.0.0.1"), realserver.Volatile()...)
	url := strings.TrimSuffix(server.Database(t), "disable") + "verify-full"
	if _, err := postgres.Open(t.Context(), url, store.Options{}); err == nil ||
		errors.Is(err, store.ErrAway) {
		t.Errorf("a certificate that nobody knows: %v", err)
	}
	_, err := postgres.Open(t.Context(), url+"&sslrootcert="+testca.New(t).File, store.Options{})
	if err == nil || errors.Is(err, store.ErrAway) {
		t.Errorf("another authority: %v", err)
	}
	s := open(t, url+"&sslrootcert="+certificate, store.Options{})
	if outcome := put(t, own(t, s, 3), 0); outcome != store.Applied {
		t.Errorf("outcome %d", outcome)
	}
	c := session(t, url+"&sslrootcert="+certificate, "observer")
	plain := value[int64](t, c, "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'carillon' AND NOT ssl")
	if plain != 0 {
		t.Errorf("%d connections without TLS", plain)
	}
	if err := postgres.CheckURL(url + "&sslrootcert=/nowhere"); err == nil ||
		!strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestTLSOfAnotherHost: a certificate of a trusted authority for another host is not accepted.
func TestTLSOfAnotherHost(t *testing.T) {
	a := testca.New(t)
	server := realserver.StartPostgresTLS(t, a.Issue(nil, "db.example"), realserver.Volatile()...)
	url := strings.TrimSuffix(server.Database(t), "disable") + "verify-full&sslrootcert=" + a.File
	if _, err := postgres.Open(t.Context(), url, store.Options{}); err == nil || errors.Is(err, store.ErrAway) ||
		!strings.Contains(err.Error(), "db.example") && !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("opened with %v", err)
	}
}
