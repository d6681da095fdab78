// Package testca is an authority of tests that signs certificates and keeps them in PEM files.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// CA signs certificates. Its methods end the test if they fail.
type CA struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
	File string // of its certificate

	t testing.TB
}

// New makes an authority for a day.
func New(t testing.TB) *CA {
	t.Helper()
	a := &CA{t: t, Key: newKey(t)}
	shape := &x509.Certificate{SerialNumber: serial(t), Subject: pkix.Name{CommonName: "authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, shape, shape, a.Key.Public(), a.Key)
	check(t, err)
	a.Cert, err = x509.ParseCertificate(der)
	check(t, err)
	a.File = filepath.Join(t.TempDir(), "ca.pem")
	Write(t, a.File, a.PEM())
	return a
}

// PEM is the authority's certificate.
func (a *CA) PEM() []byte { return encode("CERTIFICATE", a.Cert.Raw) }

// Pool is the authority alone.
func (a *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// TLS is the pair as crypto/tls has it.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	check(t, err)
	return pair
}

// Files writes the pair to new files.
func (p Pair) Files(t testing.TB) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	Write(t, cert, p.Cert)
	Write(t, key, p.Key)
	return cert, key
}

// Issue signs for names: SPIFFE ids, IP addresses and DNS names, valid for an hour. change, if not nil, may
// change what is signed.
func (a *CA) Issue(change func(*x509.Certificate), names ...string) Pair {
	a.t.Helper()
	shape := &x509.Certificate{SerialNumber: serial(a.t), NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			shape.IPAddresses = append(shape.IPAddresses, ip)
		} else if strings.Contains(name, "://") {
			u, err := url.Parse(name)
			check(a.t, err)
			shape.URIs = append(shape.URIs, u)
		} else {
			shape.DNSNames = append(shape.DNSNames, name)
		}
	}
	if change != nil {
		change(shape)
	}
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, shape, a.Cert, key.Public(), a.Key)
	check(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(a.t, err)
	return Pair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", private)}
}

// Write replaces a file at once, so that nobody reads half of it.
func Write(t testing.TB, path string, text []byte) {
	t.Helper()
	check(t, os.WriteFile(path+".new", text, 0o600))
	check(t, os.Rename(path+".new", path))
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(t, err)
	return n
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
