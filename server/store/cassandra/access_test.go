package cassandra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/cassandra"
)

// TestAUserByTLS: a user who may use the tables of the store's keyspace, and no others, is enough once they are
// there; the files that a URL names are used, with a server of a private authority.
func TestAUserByTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("Cassandra is slow")
	}
	certificate, key, _ := realserver.Authority(t)
	pem := filepath.Join(t.TempDir(), "server.pem")
	var both []byte
	for _, name := range []string{key, certificate} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	if err := os.WriteFile(pem, both, 0o600); err != nil {
		t.Fatal(err)
	}
	n := realserver.StartCassandra(t, "authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer",
		"client_encryption_options: {enabled: true, optional: true, require_client_auth: false, keystore: "+pem+
			", ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}}")
	admin := admin(t, n)
	for _, cql := range []string{
		`CREATE KEYSPACE jobs WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}`,
		`CREATE ROLE carillon WITH PASSWORD = 'a secret' AND LOGIN = true`,
		`GRANT CREATE ON KEYSPACE jobs TO carillon`, `GRANT SELECT ON KEYSPACE jobs TO carillon`,
		`GRANT MODIFY ON KEYSPACE jobs TO carillon`,
	} {
		if err := admin.Query(cql).Exec(); err != nil {
			t.Fatalf("%s: %v", cql, err)
		}
	}
	through := func(user, query string) (*cassandra.Store, error) {
		o, err := cassandra.ParseURL(fmt.Sprintf("cassandras://%s@%s?keyspace=jobs&datacenter=datacenter1%s", user,
			n.Address(), query))
		if err != nil {
			t.Fatal(err)
		}
		return cassandra.Open(t.Context(), o)
	}
	for what, bad := range map[string][2]string{
		"another password":    {"carillon:no%20secret", "&sslrootcert=" + certificate},
		"a private authority": {"carillon:a%20secret", ""},
	} {
		s, err := through(bad[0], bad[1])
		if err == nil {
			t.Errorf("%s: it opens", what)
			_ = s.Close()
		} else if strings.Contains(err.Error(), "no secret") {
			t.Errorf("%s: the error has the password: %v", what, err)
		}
	}
	s, err := through("carillon:a%20secret", "&sslrootcert="+certificate)
	if err != nil {
		t.Fatal(err)
	}
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "put", sh, servertest.Batch("a"), store.Applied)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := admin.Query(`REVOKE CREATE ON KEYSPACE jobs FROM carillon`).Exec(); err != nil {
		t.Fatal(err)
	}
	if s, err = through("carillon:a%20secret", "&sslrootcert="+certificate); err != nil {
		t.Fatalf("once the tables are there: %v", err)
	}
	defer s.Close()
	sh, _ = servertest.Own(t, s, 3)
	servertest.WantNames(t, sh, "a")
	elsewhere, err := cassandra.ParseURL(fmt.Sprintf("cassandras://carillon:a%%20secret@%s?keyspace=jobs&sslrootcert=%s",
		n.Address(), certificate))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cassandra.Open(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "datacenter=(none)") {
		t.Errorf("a node that says no data centre: %v", err)
	}
	elsewhere.Datacenter = "moon"
	if _, err := cassandra.Open(t.Context(), elsewhere); err == nil ||
		!strings.Contains(err.Error(), `no replicas in the data centre "moon"`) {
		t.Errorf("a data centre that is not there: %v", err)
	}
}

// admin connects as the user that Cassandra makes some seconds after its first start.
func admin(t *testing.T, n *realserver.Cassandra) *gocql.Session {
	t.Helper()
	c := gocql.NewCluster(n.Address())
	c.Port, c.Timeout, c.RegisteredTypes = n.Port, 10*time.Second, gocql.GlobalTypes.Copy()
	c.Authenticator = gocql.PasswordAuthenticator{Username: "cassandra", Password: "cassandra"}
	var s *gocql.Session
	servertest.Until(t, func() (err error) {
		s, err = c.CreateSession()
		return err
	})
	t.Cleanup(s.Close)
	return s
}
