package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
)

// issuer signs the certificates of nodes.
type issuer struct {
	t     *testing.T
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	i := &issuer{t: t, key: key, roots: x509.NewCertPool(),
		cert: &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign}}
	i.cert, err = x509.ParseCertificate(i.sign(i.cert, key))
	must(t, err)
	i.roots.AddCert(i.cert)
	return i
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (i *issuer) sign(shape *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	i.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, shape, i.cert, key.Public(), i.key)
	must(i.t, err)
	return der
}

// node serves gRPC on a loopback address with a certificate for name; it answers each call with the
// :authority that it got.
func (i *issuer) node(host, name string) (addr string) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(i.t, err)
	shape := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
	if ip := net.ParseIP(name); ip != nil {
		shape.IPAddresses = []net.IP{ip}
	} else {
		shape.DNSNames = []string{name}
	}
	pair := tls.Certificate{Certificate: [][]byte{i.sign(shape, key)}, PrivateKey: key}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	must(i.t, err)
	g := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}})),
		grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			m, _ := metadata.FromIncomingContext(s.Context())
			return status.Error(codes.NotFound, strings.Join(m.Get(":authority"), " "))
		}))
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	i.t.Cleanup(func() {
		g.Stop()
		must(i.t, <-ended)
	})
	return l.Addr().String()
}

// authority returns the :authority of a call to addr; "": nobody there was believed.
func (i *issuer) authority(addr, serverName string) string {
	i.t.Helper()
	c, err := Dial(addr, WithTransportCredentials(credentials.NewTLS(
		&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: i.roots, ServerName: serverName})))
	must(i.t, err)
	defer c.Close()
	for c.conn.Connect(); ; {
		state := c.conn.GetState()
		if state == connectivity.TransientFailure {
			return ""
		}
		if state == connectivity.Ready {
			break
		}
		if !c.conn.WaitForStateChange(i.t.Context(), state) {
			i.t.Fatal("the test has ended")
		}
	}
	_, err = c.GetNamespace(i.t.Context(), "default")
	answer, ok := errors.AsType[*carillon.Error](err)
	if !ok || answer.Kind != carillon.NotFound {
		i.t.Fatalf("the node did not answer: %v", err)
	}
	return answer.Message
}

// TestTheNameOfTheCredentialsCounts with one address and with several; without it, the host of each address.
func TestTheNameOfTheCredentialsCounts(t *testing.T) {
	const name = "node.example"
	i := newIssuer(t)
	for _, c := range []struct {
		host, cert, asked string
		want              bool
	}{
		{"127.0.0.1", "127.0.0.1", "", true},
		{"127.0.0.1", name, "", false},
		{"127.0.0.1", "127.0.0.1", name, false},
		{"127.0.0.1", name, name, true},
		{"127.0.0.1", name, "other.example", false},
		{"127.0.0.1", "127.0.0.1", "127.0.0.1", true},
		{"::1", "::1", "", true},
		{"::1", "::1", name, false},
		{"::1", name, name, true},
	} {
		one, other := i.node(c.host, c.cert), i.node(c.host, c.cert)
		for _, addr := range []string{one, one + "," + other} {
			want := []string{""}
			switch {
			case c.want && c.asked != "":
				want = []string{c.asked}
			case c.want:
				want = strings.Split(addr, ",")
			}
			if got := i.authority(addr, c.asked); !slices.Contains(want, got) {
				t.Errorf("%s, a certificate for %s, asked for %q: reached as %q, want one of %q", addr, c.cert,
					c.asked, got, want)
			}
		}
	}
}

// TestEachOfSeveralIsVerifiedByItsOwnHost: whoever has no certificate for its address is passed over.
func TestEachOfSeveralIsVerifiedByItsOwnHost(t *testing.T) {
	i := newIssuer(t)
	wrong, right := i.node("127.0.0.1", "::1"), i.node("::1", "::1")
	if got := i.authority(wrong+","+right, ""); got != right {
		t.Errorf("reached as %q, want %q", got, right)
	}
}

// TestNoCredentialsAreRefused with several addresses as with one.
func TestNoCredentialsAreRefused(t *testing.T) {
	for _, addr := range []string{"a:1", "a:1,b:1"} {
		if _, err := Dial(addr, WithTransportCredentials(nil)); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
