package daprmove_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/carillonhq/carillon/server/internal/clienttls"
	"github.com/carillonhq/carillon/server/internal/daprmove"
)

// authority signs certificates of an etcd and of its clients.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		Subject: pkix.Name{CommonName: rand.Text()}, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a key and a certificate for it; the first one signs itself.
func (a *authority) sign(shape *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(a.t, err)
	shape.SerialNumber, shape.NotBefore, shape.NotAfter = serial, time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(a.t, err)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = shape, key
	}
	der, err := x509.CreateCertificate(rand.Reader, shape, parent, key.Public(), signer)
	check(a.t, err)
	cert, err := x509.ParseCertificate(der)
	check(a.t, err)
	return cert, key
}

// file writes a file of PEM.
func (a *authority) file(kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.t.TempDir(), "pem")
	check(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// pair is the files of a certificate and its key.
func (a *authority) pair(shape *x509.Certificate) (cert, key string) {
	a.t.Helper()
	shape.KeyUsage = x509.KeyUsageDigitalSignature
	signed, private := a.sign(shape)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check(a.t, err)
	return a.file("CERTIFICATE", signed.Raw), a.file("PRIVATE KEY", der)
}

// anchors is the file of the authority's own certificate.
func (a *authority) anchors() string {
	a.t.Helper()
	return a.file("CERTIFICATE", a.cert.Raw)
}

// access is that of a client which trusts the authority; by is who signed its certificate, nil: it has none.
func (a *authority) access(by *authority) daprmove.Access {
	a.t.Helper()
	o := clienttls.Options{CA: a.anchors()}
	if by != nil {
		o.Cert, o.Key = by.pair(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	config, err := o.Config(clienttls.Names{})
	check(a.t, err)
	return daprmove.Access{TLS: config}
}

// etcd runs one that is called as the shape says, and takes only clients whose certificate the authority has
// signed. It is a client of its own too, by the same certificate.
func (a *authority) etcd(shape *x509.Certificate) []string {
	a.t.Helper()
	shape.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	cert, key := a.pair(shape)
	c := embed.NewConfig()
	c.Dir = a.t.TempDir()
	c.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: a.anchors(), ClientCertAuth: true}
	c.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	c.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e := started(a.t, c)
	a.t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return []string{"https://" + e.Clients[0].Addr().String()}
}

// TestJobsComeFromAnEtcdWithTLS: what is written to an etcd that asks for certificates is imported whole.
func TestJobsComeFromAnEtcdWithTLS(t *testing.T) {
	a := newAuthority(t)
	at := a.etcd(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	state, err := daprmove.Read(t.Context(), []string{exportFile}, daprmove.Access{})
	check(t, err)
	_, err = daprmove.WriteEtcd(t.Context(), at, a.access(a), state, daprmove.EtcdOptions{}, silent)
	check(t, err)
	read, err := daprmove.Read(t.Context(), at, a.access(a))
	check(t, err)
	report, err := daprmove.Import(t.Context(), node(t).Scheduler(), read, silent)
	check(t, err)
	if want := digest(t, state); want.Jobs != 49 || !report.Whole() || report.Source != want || report.Here != want {
		t.Errorf("%v was written, %v read, %v came in, faults %v", want, report.Source, report.Here, report.Faults)
	}
}

// TestAnEtcdThatCannotBeUsedIsNamed at once, with what would be right, in each direction.
func TestAnEtcdThatCannotBeUsedIsNamed(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	at := a.etcd(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	elsewhere := a.etcd(&x509.Certificate{DNSNames: []string{"etcd.example"}})
	plain := etcd(t)
	withUser := a.access(nil)
	withUser.Username, withUser.Password = "user", "secret"
	for _, c := range []struct {
		what, want string
		at         []string
		access     daprmove.Access
	}{
		{"another authority", "cannot be verified by --etcd-ca-file", at, stranger.access(a)},
		{"this machine's authorities", "cannot be verified by --etcd-ca-file", at, daprmove.Access{}},
		{"no certificate", "--etcd-cert-file and --etcd-key-file must be of one that it lets in", at, a.access(nil)},
		{"no certificate but a user", "--etcd-cert-file and --etcd-key-file", at, withUser},
		{"a stranger's certificate", "--etcd-cert-file and --etcd-key-file", at, a.access(stranger)},
		{"another name", "the certificate names etcd.example", elsewhere, a.access(a)},
		{"two that cannot be used", "names etcd.example", append(slices.Clone(elsewhere), elsewhere...), a.access(a)},
		{"no TLS here", "give https://", []string{strings.Replace(at[0], "https", "http", 1)}, daprmove.Access{}},
		{"no TLS there", "give http://", []string{strings.Replace(plain, "http", "https", 1)}, a.access(a)},
	} {
		state, _ := some()
		_, reading := daprmove.Read(t.Context(), c.at, c.access)
		_, writing := daprmove.WriteEtcd(t.Context(), c.at, c.access, state, daprmove.EtcdOptions{}, silent)
		for _, err := range []error{reading, writing} {
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, not %q at once", c.what, err, c.want)
			}
		}
	}
	// One that can be used is enough.
	if _, err := daprmove.Read(t.Context(), append(slices.Clone(elsewhere), at...), a.access(a)); err != nil {
		t.Error(err)
	}
}
