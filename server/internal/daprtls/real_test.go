package daprtls

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	sentryv1 "github.com/carillonhq/carillon/api/dapr/proto/sentry/v1"
)

// realConfig makes sentry sign for a few seconds.
const realConfig = `apiVersion: dapr.io/v1alpha1
kind: Configuration
metadata: {name: sentry}
spec: {mtls: {enabled: true, workloadCertTTL: 12s, allowedClockSkew: 2s}}
`

// startSentry runs the sentry of Dapr with an authority that it makes itself. The node's options for it are
// returned.
func startSentry(t *testing.T) Sentry {
	t.Helper()
	binary := os.Getenv("CARILLON_DAPR_SENTRY")
	if binary == "" {
		t.Skip("CARILLON_DAPR_SENTRY is not set: it takes the path of the sentry binary of Dapr 1.18, to be tested against")
	}
	// it looks for changes in the issuer's folder, and starts again with each
	dir, issuer := t.TempDir(), t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	newDisk(t).write(config, []byte(realConfig))
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	_, healthPort, _ := net.SplitHostPort(freeAddress(t))
	ctx, cancel := context.WithCancel(context.Background())
	sentry := exec.CommandContext(ctx, binary, "--issuer-credentials="+issuer, "--trust-domain=cluster.local",
		"--config="+config, "--listen-address=127.0.0.1", "--port="+port, "--healthz-listen-address=127.0.0.1",
		"--healthz-port="+healthPort, "--enable-metrics=false")
	sentry.Env = append(os.Environ(), "NAMESPACE=dapr-system")
	sentry.Stdout, sentry.Stderr = t.Output(), t.Output()
	sentry.Cancel = func() error { return sentry.Process.Signal(os.Interrupt) }
	sentry.WaitDelay = 10 * time.Second
	if err := sentry.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = sentry.Wait() // it was told to end
	})
	return Sentry{Address: address, TrustDomain: "cluster.local", Namespace: "dapr-system",
		TrustAnchorsFile: filepath.Join(issuer, "ca.crt"),
		WriteTo:          filepath.Join(dir, "identity", "tls"), Log: textLog(t.Output())}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// sidecar has sentry sign for an app, as daprd does, and connects to the listener as daprd does.
func (l *listener) sidecar(o Sentry, namespace, app string) credentials.TransportCredentials {
	l.tb.Helper()
	anchors, err := x509bundle.Load(spiffeid.TrustDomain{}, o.TrustAnchorsFile)
	if err != nil {
		l.tb.Fatal(err)
	}
	sentryID, _ := o.id("dapr-sentry")
	conn, err := grpc.NewClient(o.Address, grpc.WithTransportCredentials(credentials.NewTLS(
		tlsconfig.TLSClientConfig(vouchForAll{anchors}, tlsconfig.AuthorizeID(sentryID)))))
	if err != nil {
		l.tb.Fatal(err)
	}
	defer conn.Close()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		l.tb.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		l.tb.Fatal(err)
	}
	answer, err := sentryv1.NewCAClient(conn).SignCertificate(l.tb.Context(),
		&sentryv1.SignCertificateRequest{Id: app, Namespace: namespace,
			CertificateSigningRequest: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})})
	if err != nil {
		l.tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		l.tb.Fatal(err)
	}
	svid, err := identity(answer.WorkloadCertificate,
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	if err != nil {
		l.tb.Fatal(err)
	}
	schedulerID, _ := o.id(AppID)
	return credentials.NewTLS(tlsconfig.MTLSClientConfig(svid, vouchForAll{anchors},
		tlsconfig.AuthorizeID(schedulerID)))
}

// vouchForAll are trust anchors for every trust domain.
type vouchForAll struct{ bundle *x509bundle.Bundle }

func (v vouchForAll) GetX509BundleForTrustDomain(spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	return v.bundle, nil
}

// The identity comes from Dapr's own sentry, sidecars that it signs for are let in, and it is renewed while
// they are connected.
func TestWithDaprsSentry(t *testing.T) {
	o := startSentry(t)
	s, err := FromSentry(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	l := listen(t, s)
	live := l.connect(l.sidecar(o, "shop", "orders"))
	for whom, want := range map[string]codes.Code{
		"shop/orders": codes.OK, "shop/other": codes.PermissionDenied, "other/orders": codes.PermissionDenied,
		"/": codes.PermissionDenied,
	} {
		if got := call(t, live, whom); got != want {
			t.Errorf("shop/orders for %s: %v, want %v", whom, got, want)
		}
	}
	if got := call(t, l.connect(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})),
		"shop/orders"); got != codes.Unavailable {
		t.Errorf("without a certificate: %v", got)
	}

	before := serial(t, s)
	for again := time.Tick(100 * time.Millisecond); serial(t, s) == before; {
		select {
		case <-again:
		case <-ctx.Done():
			t.Fatal("the identity was not renewed")
		}
	}
	if got := call(t, live, "shop/orders"); got != codes.OK {
		t.Errorf("on the connection from before: %v", got)
	}
	if got := call(t, l.connect(l.sidecar(o, "shop", "orders")), "shop/orders"); got != codes.OK {
		t.Errorf("on a new connection: %v", got)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(o.WriteTo, "cert.pem"),
		filepath.Join(o.WriteTo, "key.pem")); err != nil {
		t.Error("what was written:", err)
	}
}
