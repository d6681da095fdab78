package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// TestTLS connects by TLS to a server of a private authority.
func TestTLS(t *testing.T) {
	certificate, key := authority(t)
	server := realserver.StartPostgres(t,
		append(realserver.Volatile(), "ssl=on", "ssl_cert_file="+certificate, "ssl_key_file="+key)...)
	url := strings.TrimSuffix(server.Database(t), "disable") + "verify-full"
	if _, err := postgres.Open(t.Context(), url, store.Options{}); err == nil ||
		errors.Is(err, store.ErrAway) {
		t.Errorf("a certificate that nobody knows: %v", err)
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

// authority is a certificate of 127.0.0.1 that has signed itself, in files that the server may read.
func authority(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	folder, uid := t.TempDir(), -1
	if os.Geteuid() == 0 { // the server runs as another user
		folder = realserver.Folder(t, "postgres")
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		if uid, err = strconv.Atoi(u.Uid); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("certificate.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}
