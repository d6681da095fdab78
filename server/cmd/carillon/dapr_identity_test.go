package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/daprtls"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestANodeWhoseCertificateEndsStaysReady: a probe would end it, and with it the streams that there are.
func TestANodeWhoseCertificateEndsStaysReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = time.Hour
		identity, err := daprtls.FromFiles(certificate(t, life))
		if err != nil {
			t.Fatal(err)
		}
		c, service := server.Config{Sidecars: &server.Sidecars{}}, daprapi.Options{}
		admit(identity, &c, &service)
		if err := c.Sidecars.Ready(); err != nil || len(c.Sidecars.Options) == 0 || service.Authorize == nil {
			t.Errorf("with a certificate: ready %v, %d options", err, len(c.Sidecars.Options))
		}
		<-time.After(life + time.Minute)
		synctest.Wait()
		if identity.Err() == nil {
			t.Fatal("the certificate has not ended")
		}
		if err := c.Sidecars.Ready(); err != nil {
			t.Errorf("the node is not ready: %v", err)
		}
		identity.Close()
	})
}

// certificate is an identity in files, signed by itself.
func certificate(t *testing.T, life time.Duration) daprtls.Files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	shape := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(),
		NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageDigitalSignature, URIs: []*url.URL{{Scheme: "spiffe",
			Host: "localhost", Path: "/ns/default/dapr-scheduler"}}}
	cert, err := x509.CreateCertificate(rand.Reader, shape, shape, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), "pem")
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	of := write("CERTIFICATE", cert)
	return daprtls.Files{Cert: of, Key: write("PRIVATE KEY", private), CA: of}
}
