package daprtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names of the tests: the node, and a sidecar.
const (
	nodeName = "spiffe://localhost/ns/dapr-system/dapr-scheduler"
	appName  = "spiffe://public/ns/shop/orders"
)

// authority is a trust anchor and, like Dapr's, an issuer below it that signs for workloads.
type authority struct {
	tb           testing.TB
	root, issuer *x509.Certificate
	key          *ecdsa.PrivateKey // the issuer's
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	rootKey, issuerKey := newKey(tb), newKey(tb)
	shape := func(n int64) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(n), NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(1e5 * time.Hour),
			IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	}
	rootShape := shape(1)
	root := certify(tb, rootShape, rootShape, rootKey, rootKey)
	return &authority{tb: tb, root: root,
		issuer: certify(tb, shape(2), root, issuerKey, rootKey), key: issuerKey}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func certify(tb testing.TB, shape, parent *x509.Certificate,
	key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, shape, parent, key.Public(), parentKey)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}

// life is how long the certificates of workloads are valid.
const life = 10 * time.Minute

// leaf is the shape of a workload's certificate; no name: one without any.
func leaf(tb testing.TB, name string) *x509.Certificate {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	shape := &x509.Certificate{SerialNumber: serial, NotBefore: time.Now(), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth}}
	if name != "" {
		uri, err := url.Parse(name)
		if err != nil {
			tb.Fatal(err)
		}
		shape.URIs = []*url.URL{uri}
	}
	return shape
}

// issue signs a certificate of that shape; both are PEM.
func (a *authority) issue(shape *x509.Certificate) (cert, key []byte) {
	a.tb.Helper()
	private := newKey(a.tb)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.tb.Fatal(err)
	}
	return a.sign(shape, private.Public()), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// sign certifies a public key: the certificate and the issuer's, PEM.
func (a *authority) sign(shape *x509.Certificate, public any) []byte {
	a.tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, shape, a.issuer, public, a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	return append(certPEM(der), certPEM(a.issuer.Raw)...)
}

// pair is a certificate and key as a TLS client presents them.
func (a *authority) pair(shape *x509.Certificate) tls.Certificate {
	a.tb.Helper()
	pair, err := tls.X509KeyPair(a.issue(shape))
	if err != nil {
		a.tb.Fatal(err)
	}
	return pair
}

// anchors are the trust anchors, PEM.
func (a *authority) anchors() []byte { return certPEM(a.root.Raw) }

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// disk is a folder with the files of a node's identity.
type disk struct {
	tb              testing.TB
	cert, key, root string // paths
}

func newDisk(tb testing.TB) disk {
	tb.Helper()
	dir := tb.TempDir()
	return disk{tb, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")}
}

func (d disk) write(path string, content []byte) {
	d.tb.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		d.tb.Fatal(err)
	}
}

// hold makes the authority sign for the node, and puts the identity and the trust anchors into the files.
func (d disk) hold(a *authority, shape *x509.Certificate) {
	d.tb.Helper()
	cert, key := a.issue(shape)
	d.write(d.cert, cert)
	d.write(d.key, key)
	d.write(d.root, a.anchors())
}

func (d disk) files() Files { return Files{Cert: d.cert, Key: d.key, CA: d.root} }
