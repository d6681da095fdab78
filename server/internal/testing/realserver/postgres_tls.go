package realserver

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

// StartPostgresTLS is StartPostgres of a server that has a certificate, and takes connections by TLS, too.
func StartPostgresTLS(t testing.TB, pair testca.Pair, settings ...string) *Postgres {
	t.Helper()
	folder, uid := t.TempDir(), -1
	if os.Geteuid() == 0 { // the server runs as another user
		folder = Folder(t, "postgres")
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		if uid, err = strconv.Atoi(u.Uid); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, text []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return StartPostgres(t, append(settings, "ssl=on", "ssl_cert_file="+write("certificate.pem", pair.Cert),
		"ssl_key_file="+write("key.pem", pair.Key))...)
}
