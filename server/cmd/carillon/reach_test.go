package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	sentryv1 "github.com/carillonhq/carillon/api/dapr/proto/sentry/v1"
	"github.com/carillonhq/carillon/server/internal/daprtls"
	"github.com/carillonhq/carillon/server/internal/server"
)

// signer signs certificates, and is Dapr's sentry: whoever asks gets one for what it asks for.
type signer struct {
	sentryv1.UnimplementedCAServer
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ca   string // file
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noFault(t, err)
	s := &signer{t: t, key: key, cert: &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	der, err := s.sign(s.cert, key.Public())
	noFault(t, err)
	s.cert, err = x509.ParseCertificate(der)
	noFault(t, err)
	s.ca = pemFile(t, "CERTIFICATE", der)
	return s
}

func noFault(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pemFile(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pem")
	noFault(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func (s *signer) sign(shape *x509.Certificate, public any) ([]byte, error) {
	return x509.CreateCertificate(rand.Reader, shape, s.cert, public, s.key)
}

// shapeOf is a certificate for a SPIFFE id or an IP address.
func shapeOf(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	shape := &x509.Certificate{SerialNumber: serial, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
	if ip := net.ParseIP(name); ip != nil {
		shape.IPAddresses = []net.IP{ip}
		return shape, err
	}
	u, faulty := url.Parse(name)
	if err == nil {
		err = faulty
	}
	shape.URIs = []*url.URL{u}
	return shape, err
}

// identity is a certificate and its key, in files.
func (s *signer) identity(name string) (cert, key string) {
	s.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noFault(s.t, err)
	shape, err := shapeOf(name)
	noFault(s.t, err)
	der, err := s.sign(shape, private.Public())
	noFault(s.t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	noFault(s.t, err)
	return pemFile(s.t, "CERTIFICATE", der), pemFile(s.t, "PRIVATE KEY", keyDER)
}

// SignCertificate implements the rpc of sentry.
func (s *signer) SignCertificate(_ context.Context,
	r *sentryv1.SignCertificateRequest) (*sentryv1.SignCertificateResponse, error) {
	block, _ := pem.Decode(r.GetCertificateSigningRequest())
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	shape, err := shapeOf("spiffe://" + r.GetTrustDomain() + "/ns/" + r.GetNamespace() + "/" + r.GetId())
	if err != nil {
		return nil, err
	}
	der, err := s.sign(shape, asked.PublicKey)
	return &sentryv1.SignCertificateResponse{
		WorkloadCertificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// sentry serves the signer where the commands find Dapr's sentry.
func (s *signer) sentry() (addr string) {
	s.t.Helper()
	pair, err := tls.LoadX509KeyPair(s.identity("spiffe://cluster.local/ns/dapr-system/dapr-sentry"))
	noFault(s.t, err)
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})))
	sentryv1.RegisterCAServer(g, s)
	l, err := new(net.ListenConfig).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	noFault(s.t, err)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	s.t.Cleanup(func() {
		g.Stop()
		noFault(s.t, <-ended)
	})
	return l.Addr().String()
}

const schedulerID = "spiffe://cluster.local/ns/dapr-system/dapr-scheduler"

// node runs a node that talks to others as those in Dapr's chart do: both sides show who they are.
func (s *signer) node() (addr string) {
	s.t.Helper()
	cert, key := s.identity(schedulerID)
	identity, err := daprtls.FromFiles(daprtls.Files{Cert: cert, Key: key, CA: s.ca})
	noFault(s.t, err)
	s.t.Cleanup(identity.Close)
	return runWith(s.t, &server.Credentials{Server: identity.NodeServerOptions(), Dial: identity.NodeDialOptions(),
		Ready: identity.Ready})
}

// runWith runs a node with these credentials, in memory.
func runWith(t *testing.T, c *server.Credentials) (addr string) {
	t.Helper()
	node, stop, err := startNode(t.Context(), server.Config{Store: "memory:", Partitions: 2, GRPC: "127.0.0.1:0",
		HTTP: server.None, DrainGrace: -1, Credentials: c})
	noFault(t, err)
	t.Cleanup(func() { noFault(t, stop()) })
	return node.GRPCAddr()
}

// daprFile is a file of dapr scheduler export, with one job of the namespace default.
func daprFile(t *testing.T, addr string, tls ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs")
	if got := runInProcess(append([]string{"dapr", "export", "--server", addr, path}, tls...)...); got.code != 0 {
		t.Fatalf("export: %+v", got)
	}
	return path
}

// TestCommandsReachANodeThatSpeaksTLS: jobs are put, shown and moved over the connection of the nodes, by whoever
// has a certificate of a node.
func TestCommandsReachANodeThatSpeaksTLS(t *testing.T) {
	s := newSigner(t)
	addr := s.node()
	cert, key := s.identity(schedulerID)
	tls := []string{"--ca", s.ca, "--cert", cert, "--key", key, "--server-name", "spiffe://*/ns/dapr-system/dapr-scheduler"}
	run := func(args ...string) ran { return runInProcess(append(args, "--server", addr, "--wait", "20s")...) }
	for _, args := range [][]string{{"job", "put", "a/b", "--worker", "q", "--in", "1h"}, {"job", "get", "a/b"},
		{"cluster", "status"}, {"namespace", "get", "default"}} {
		if got := run(append(args, tls...)...); got.code != 0 {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := run(append([]string{"job", "list"}, tls...)...); got.code != 0 || !strings.Contains(got.out, "a/b") {
		t.Errorf("list: %+v", got)
	}
	file := daprFile(t, addr, tls...)
	if got := run(append([]string{"dapr", "import", file}, tls...)...); got.code != 0 {
		t.Errorf("import: %+v", got)
	}
	t.Setenv("CARILLON_CA", s.ca)
	t.Setenv("CARILLON_CERT", cert)
	t.Setenv("CARILLON_KEY", key)
	t.Setenv("CARILLON_SERVER_NAME", schedulerID)
	if got := run("job", "list"); got.code != 0 {
		t.Errorf("by the environment: %+v", got)
	}
	if got := run("job", "list", "--key", "/none"); got.code != exitUsage || !strings.Contains(got.errs, "--cert, --key: ") {
		t.Errorf("the command line does not win: %+v", got)
	}
}

// TestWhoDoesNotReachANodeIsToldWhy: whoever has no certificate of a node, or verifies it in another way.
func TestWhoDoesNotReachANodeIsToldWhy(t *testing.T) {
	s, other := newSigner(t), newSigner(t)
	addr := s.node()
	cert, key := s.identity(schedulerID)
	appCert, appKey := s.identity("spiffe://cluster.local/ns/dapr-system/orders")
	for what, c := range map[string]struct {
		args []string
		want string
		code int
		at   string
	}{
		"plain text":         {nil, "speaks TLS: give --ca", exitFailed, ""},
		"nothing shown":      {[]string{"--ca", s.ca, "--server-name", schedulerID}, "does not accept this client", exitFailed, ""},
		"an app":             {[]string{"--ca", s.ca, "--server-name", schedulerID, "--cert", appCert, "--key", appKey}, "--cert", exitFailed, ""},
		"another's CA":       {[]string{"--ca", other.ca, "--server-name", schedulerID, "--cert", cert, "--key", key}, "--ca and --server-name", exitFailed, ""},
		"another node":       {[]string{"--ca", s.ca, "--server-name", schedulerID + "-2", "--cert", cert, "--key", key}, "is for " + schedulerID, exitFailed, ""},
		"no name":            {[]string{"--ca", s.ca, "--cert", cert, "--key", key}, "the certificate names " + schedulerID, exitFailed, ""},
		"no key":             {[]string{"--ca", s.ca, "--cert", cert}, "--key: ", exitUsage, ""},
		"no CA":              {[]string{"--cert", cert, "--key", key, "--server-name", schedulerID}, "--ca: ", exitUsage, ""},
		"a node without TLS": {[]string{"--ca", s.ca}, "does not speak TLS: leave out --ca", exitFailed, runWith(t, nil)},
		"a wrong pattern":    {[]string{"--ca", s.ca, "--server-name", "spiffe://cluster.local/ns/dapr*/x"}, "--server-name: ", exitUsage, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			got := runInProcess(append([]string{"job", "list", "--wait", "20s", "--server", cmp.Or(c.at, addr)}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.errs, c.want) {
				t.Errorf("%+v, want %d, %q", got, c.code, c.want)
			}
		})
	}
}

// TestOneOfSeveralIsVerifiedByItsOwnHost: of several addresses each has a certificate of its own.
func TestOneOfSeveralIsVerifiedByItsOwnHost(t *testing.T) {
	s := newSigner(t)
	pair, err := tls.LoadX509KeyPair(s.identity("127.0.0.1"))
	noFault(t, err)
	anchors := x509.NewCertPool()
	anchors.AddCert(s.cert)
	addr := runWith(t, &server.Credentials{
		Server: []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}))},
		Dial:   []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: anchors}))}})
	for _, servers := range []string{addr, nobody + "," + addr, "dns:///" + addr} {
		got := runInProcess("job", "list", "--wait", "20s", "--server", servers, "--ca", s.ca)
		if got.code != 0 {
			t.Errorf("%s: %+v", servers, got)
		}
	}
}

// TestMovesWithACertificateOfSentry: an import and an export reach a node as another node does.
func TestMovesWithACertificateOfSentry(t *testing.T) {
	t.Setenv("NAMESPACE", "dapr-system")
	s := newSigner(t)
	addr, sentry := s.node(), s.sentry()
	tls := []string{"--tls-enabled", "--trust-domain", "cluster.local", "--trust-anchors-file", s.ca, "--sentry-address", sentry}
	file := daprFile(t, addr, tls...)
	importing := func(tls ...string) ran {
		return runInProcess(append([]string{"dapr", "import", file, "--server", addr}, tls...)...)
	}
	if got := importing(append(tls, "--wait", "20s")...); got.code != 0 {
		t.Errorf("import: %+v", got)
	}
	for what, c := range map[string]struct {
		args []string
		want string
		code int
	}{
		"sentry is away":    {[]string{"--tls-enabled", "--trust-anchors-file", s.ca, "--sentry-address", nobody, "--wait", "100ms"}, "no identity yet", exitFailed},
		"no anchors":        {[]string{"--tls-enabled", "--trust-anchors-file", "/none", "--sentry-address", sentry, "--wait", "100ms"}, "/none", exitFailed},
		"a wrong address":   {[]string{"--tls-enabled", "--sentry-address", "x"}, "sentry_address", exitUsage},
		"without TLS":       {[]string{"--sentry-address", sentry}, "--sentry-address: it goes with --tls-enabled", exitUsage},
		"both":              {append(tls, "--ca", s.ca), "--ca: with --tls-enabled", exitUsage},
		"another namespace": {append(tls, "--trust-domain", "other", "--wait", "100ms"), "dapr-sentry", exitFailed},
	} {
		if got := importing(c.args...); got.code != c.code || !strings.Contains(got.errs, c.want) {
			t.Errorf("%s: %+v, want %d, %q", what, got, c.code, c.want)
		}
	}
}

// TestWhoeverTalksToANodeCanUseTLS: no command has an address of a node without the flags of TLS.
func TestWhoeverTalksToANodeCanUseTLS(t *testing.T) {
	found := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("server") != nil {
			found++
			for name := range (&reach{}).tlsFlags() {
				if cmd.Flags().Lookup(name) == nil {
					t.Errorf("%s has no --%s", cmd.CommandPath(), name)
				}
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(app{}))
	if found < 20 {
		t.Errorf("%d commands", found)
	}
}
