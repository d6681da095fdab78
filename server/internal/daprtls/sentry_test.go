package daprtls

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	sentryv1 "github.com/carillonhq/carillon/api/dapr/proto/sentry/v1"
)

// signer is a peer that speaks sentry's protocol, over real TLS, with an authority of its own: so the
// exchange is tested wherever Go is. real_test.go has the same with the sentry of Dapr, where there is one.
type signer struct {
	sentryv1.UnimplementedCAServer
	tb testing.TB

	mu       sync.Mutex
	a        *authority
	listener *bufconn.Listener // where sentry is found
	calls    int
	last     *sentryv1.SignCertificateRequest
	err      error  // what every call ends with
	hang     bool   // no call ends
	name     string // who the certificates are for, if not who asked
}

const sentryName = "spiffe://localhost/ns/dapr-system/dapr-sentry"

// newSigner is sentry, called name.
func newSigner(t *testing.T, a *authority, name string) *signer {
	t.Helper()
	p := &signer{tb: t, a: a, listener: bufconn.Listen(1 << 20)}
	shape := leaf(t, name)
	shape.NotAfter = time.Now().Add(1e4 * time.Hour)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{a.pair(shape)}})))
	sentryv1.RegisterCAServer(server, p)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(p.listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *signer) SignCertificate(ctx context.Context,
	r *sentryv1.SignCertificateRequest) (*sentryv1.SignCertificateResponse, error) {
	p.mu.Lock()
	p.calls++
	p.last = r
	hang := p.hang
	p.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	block, _ := pem.Decode(r.CertificateSigningRequest)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		return nil, status.Error(codes.InvalidArgument, "no signing request")
	}
	name := p.name
	if name == "" {
		name = "spiffe://" + r.TrustDomain + "/ns/" + r.Namespace + "/" + r.Id
	}
	return &sentryv1.SignCertificateResponse{WorkloadCertificate: p.a.sign(leaf(p.tb, name), csr.PublicKey)}, nil
}

// options ask this peer.
func (p *signer) options(anchors string) Sentry {
	return Sentry{Address: "127.0.0.1:1", Namespace: "dapr-system", TrustAnchorsFile: anchors,
		dial: func(ctx context.Context, _ string) (net.Conn, error) {
			p.mu.Lock()
			listener := p.listener
			p.mu.Unlock()
			return listener.DialContext(ctx)
		}}
}

// set changes how sentry behaves.
func (p *signer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// called is how often sentry was asked, and the last request.
func (p *signer) called() (int, *sentryv1.SignCertificateRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, p.last
}

// bubble runs a test with sentry, the file of trust anchors and a source, in a bubble where time stands still
// until the test sleeps. A test that changes the options gives a function for that.
func bubble(t *testing.T, change func(*Sentry), test func(t *testing.T, p *signer, disk disk, s *Source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, disk := newAuthority(t), newDisk(t)
		disk.write(disk.root, a.anchors())
		p := newSigner(t, a, sentryName)
		o := p.options(disk.root)
		if change != nil {
			change(&o)
		}
		s, err := FromSentry(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		test(t, p, disk, s)
	})
}

// pass lets the time of a bubble pass and what is due be done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestSentrySigns(t *testing.T) {
	bubble(t, nil, func(t *testing.T, p *signer, _ disk, s *Source) {
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		svid, err := s.GetX509SVID()
		if err != nil || svid.ID.String() != nodeName || len(svid.Certificates) != 2 {
			t.Error(svid, err)
		}
		if _, r := p.called(); r.Id != "dapr-scheduler" || r.Namespace != "dapr-system" ||
			r.TrustDomain != "localhost" || r.Token != "" ||
			r.TokenValidator != sentryv1.SignCertificateRequest_UNKNOWN {
			t.Error(r)
		}
	})
}

// A certificate is renewed after half of its life, with a new key, and not before.
func TestRenewedAtHalfItsLife(t *testing.T) {
	bubble(t, nil, func(t *testing.T, p *signer, _ disk, s *Source) {
		begin := time.Now()
		for round := 1; round <= 3; round++ {
			before, err := s.GetX509SVID()
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Until(begin.Add(time.Duration(round)*life/2)) - poll)
			if calls, _ := p.called(); calls != round {
				t.Fatalf("before half of its life is over: %d calls", calls)
			}
			pass(2 * poll)
			after, err := s.GetX509SVID()
			if calls, _ := p.called(); err != nil || calls != round+1 ||
				after.PrivateKey.(ed25519.PrivateKey).Equal(before.PrivateKey) {
				t.Fatalf("after half of its life: %d calls, %v", calls, err)
			}
		}
	})
}

// While sentry is away it is asked every 10 s at most; the identity stays in force until it ends, and then
// the node says so once.
func TestSentryIsAway(t *testing.T) {
	logged := &strings.Builder{}
	bubble(t, func(o *Sentry) { o.Log = textLog(logged) }, func(t *testing.T, p *signer, _ disk, s *Source) {
		p.set(func() { p.err = status.Error(codes.Unavailable, "away") })
		pass(life/2 + time.Minute)
		if calls, _ := p.called(); calls < 7 || calls > 11 {
			t.Errorf("%d calls in a minute", calls)
		}
		if err := s.Err(); err != nil {
			t.Error("the identity is still valid:", err)
		}
		pass(life / 2)
		if err := s.Err(); !errors.Is(err, ErrNoIdentity) || !strings.Contains(err.Error(), "away") {
			t.Error(err)
		}
		if err := s.Ready(); err != nil {
			t.Error("a probe would end the node:", err)
		}
		p.set(func() { p.err = nil })
		pass(maxRetry + poll)
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
	if text := logged.String(); strings.Count(text, "level=WARN") != 1 ||
		strings.Count(text, "no sidecar can connect any more") != 1 {
		t.Error(text)
	}
}

// Nothing is ready before sentry has signed, and the reason is said.
func TestNoIdentityYet(t *testing.T) {
	bubble(t, func(o *Sentry) { o.TrustAnchorsFile += ".later" },
		func(t *testing.T, p *signer, disk disk, s *Source) {
			pass(time.Minute)
			calls, _ := p.called()
			if err := s.Err(); !errors.Is(err, ErrNoIdentity) || !errors.Is(err, os.ErrNotExist) || calls != 0 {
				t.Error("without trust anchors:", err, calls)
			}
			p.set(func() { p.hang = true })
			disk.write(disk.root+".later", p.a.anchors())
			pass(signTimeout + poll)
			if err := s.Err(); !errors.Is(err, ErrNoIdentity) || status.Code(err) != codes.DeadlineExceeded {
				t.Error("sentry does not answer:", err)
			}
			if err := s.Ready(); !errors.Is(err, ErrNoIdentity) {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := s.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNoIdentity) {
				t.Error(err)
			}
			p.set(func() { p.hang = false })
			if err := s.Wait(t.Context()); err != nil || s.Ready() != nil {
				t.Error(err, s.Ready())
			}
		})
}

func TestCloseWhileSentryHangs(t *testing.T) {
	bubble(t, nil, func(t *testing.T, p *signer, _ disk, s *Source) {
		p.set(func() { p.hang = true })
		pass(life/2 + poll)
		begin := time.Now()
		s.Close()
		if took := time.Since(begin); took > 0 {
			t.Error(took)
		}
	})
}

// What sentry must not be, and must not sign.
func TestUntrustworthy(t *testing.T) {
	for name, c := range map[string]struct {
		sentry string // its name
		signs  string // the name it gives
		other  bool   // it is not vouched for by the trust anchors
		says   string
	}{
		"sentry of another namespace": {"spiffe://localhost/ns/default/dapr-sentry", "", false, "unexpected ID"},
		"sentry of another domain":    {"spiffe://public/ns/dapr-system/dapr-sentry", "", false, "unexpected ID"},
		"not sentry": {"spiffe://localhost/ns/dapr-system/dapr-operator", "", false,
			"unexpected ID"},
		"another authority": {sentryName, "", true, "unknown authority"},
		"it signs for another app": {sentryName, "spiffe://localhost/ns/dapr-system/orders", false,
			"sidecars accept " + nodeName + " only"},
		"it signs for another domain": {sentryName, "spiffe://public/ns/dapr-system/dapr-scheduler", false,
			"sidecars accept " + nodeName + " only"},
		"it signs without a name": {sentryName, "https://localhost", false, "no name of a workload"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, disk := newAuthority(t), newDisk(t)
				disk.write(disk.root, a.anchors())
				if c.other {
					a = newAuthority(t)
				}
				p := newSigner(t, a, c.sentry)
				p.name = c.signs
				s, err := FromSentry(p.options(disk.root))
				if err != nil {
					t.Fatal(err)
				}
				pass(0)
				if err := s.Err(); !errors.Is(err, ErrNoIdentity) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v does not say %q", err, c.says)
				}
				s.Close()
			})
		})
	}
}

// New trust anchors hold within a second; when they do not vouch for the identity, sentry is asked at once.
func TestTrustAnchorsRotate(t *testing.T) {
	bubble(t, nil, func(t *testing.T, p *signer, disk disk, s *Source) {
		before, next := serial(t, s), newAuthority(t)
		disk.write(disk.root, append(p.a.anchors(), next.anchors()...))
		pass(poll)
		if calls, _ := p.called(); serial(t, s) != before || calls != 1 {
			t.Error("the identity was renewed while it is still vouched for")
		}
		disk.write(disk.root, []byte("not yet whole"))
		pass(poll)
		if s.Err() != nil || len(s.anchors.X509Authorities()) != 2 {
			t.Error("a wrong file changed something:", s.Err())
		}
		later := newSigner(t, next, sentryName)
		p.set(func() { p.listener = later.listener })
		disk.write(disk.root, next.anchors())
		pass(poll)
		if calls, _ := later.called(); serial(t, s) == before || calls != 1 {
			t.Errorf("the identity was not renewed: %d calls", calls)
		}
	})
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	newDisk(t).write(path, []byte("secret\n"))
	accounts := serviceAccountTokens
	t.Cleanup(func() { serviceAccountTokens = accounts })
	for name, c := range map[string]struct {
		variable string
		accounts []string
		o        Sentry
		token    string
		want     sentryv1.SignCertificateRequest_TokenValidator
		wrong    bool
	}{
		"none":        {want: sentryv1.SignCertificateRequest_UNKNOWN},
		"by option":   {o: Sentry{TokenFile: path}, token: "secret", want: sentryv1.SignCertificateRequest_JWKS},
		"by variable": {variable: path, token: "secret", want: sentryv1.SignCertificateRequest_JWKS},
		"in Kubernetes, by variable": {variable: path, o: Sentry{Kubernetes: true}, token: "secret",
			want: sentryv1.SignCertificateRequest_KUBERNETES},
		"in Kubernetes": {accounts: []string{path, "nowhere"}, o: Sentry{Kubernetes: true},
			token: "secret", want: sentryv1.SignCertificateRequest_KUBERNETES},
		"in Kubernetes, older chart": {accounts: []string{dir + "/none", path}, o: Sentry{Kubernetes: true},
			token: "secret", want: sentryv1.SignCertificateRequest_KUBERNETES},
		"in Kubernetes, none": {accounts: []string{dir + "/none", dir + "/none"},
			o: Sentry{Kubernetes: true}, want: sentryv1.SignCertificateRequest_UNKNOWN},
		"outside, accounts are there": {accounts: []string{path, path},
			want: sentryv1.SignCertificateRequest_UNKNOWN},
		"a file that is missing": {o: Sentry{TokenFile: dir + "/none"}, wrong: true},
		"an empty file":          {o: Sentry{TokenFile: os.DevNull}, wrong: true},
	} {
		t.Setenv(tokenFileVariable, c.variable)
		serviceAccountTokens = c.accounts
		token, validator, err := c.o.token()
		if (err != nil) != c.wrong || token != c.token || (err == nil && validator != c.want) {
			t.Errorf("%s: %q, %v, %v", name, token, validator, err)
		}
	}
}

// Sentry judges a node without a token; where there should be one, the fault says where it was looked for.
func TestRefusedWithoutAToken(t *testing.T) {
	o := Sentry{Address: "sentry:443", Kubernetes: true}
	const want = "shown no token because neither /var/run/secrets/dapr.io/sentrytoken/token nor /var/run/secrets/kubernetes.io/serviceaccount/token is there"
	if err := o.refused("", status.Error(codes.PermissionDenied, "no")); !strings.Contains(err.Error(),
		want) || status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
	if err := o.refused("token", status.Error(codes.PermissionDenied,
		"no")); strings.Contains(err.Error(), "token") {
		t.Error(err)
	}
}

func TestTheIdentityIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets", "tls")
	bubble(t, func(o *Sentry) { o.WriteTo = path }, func(t *testing.T, p *signer, disk disk, s *Source) {
		check := func(anchors []byte) {
			t.Helper()
			pair, err := tls.LoadX509KeyPair(filepath.Join(path, "cert.pem"), filepath.Join(path, "key.pem"))
			if err != nil || pair.Leaf.SerialNumber.String() != serial(t, s) {
				t.Error("another certificate is in the file", err)
			}
			if got, err := os.ReadFile(filepath.Join(path, "ca.pem")); err != nil || !bytes.Equal(got, anchors) {
				t.Error("other trust anchors are in the file", err)
			}
			for _, name := range []string{"cert.pem", "key.pem", "ca.pem"} {
				if info, err := os.Stat(filepath.Join(path, name)); err != nil || info.Mode().Perm() != 0o600 {
					t.Error(name, info.Mode(), err)
				}
			}
		}
		check(p.a.anchors())
		both := append(p.a.anchors(), newAuthority(t).anchors()...)
		disk.write(disk.root, both)
		pass(poll)
		check(both)
		for range 3 {
			pass(life/2 + poll)
			check(both)
		}
		// the link, its folder and the one before
		if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 3 {
			t.Error(left, err)
		}
		if err := writable(path); err != nil {
			t.Error("a node that starts again:", err)
		}
	})
}

// A folder that cannot be written does not keep the identity from its use, and is written when it can be.
func TestTheFolderCannotBeWritten(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "secrets")
	newDisk(t).write(parent, nil) // a file stands where the folder should
	o := folder{path: filepath.Join(parent, "tls")}
	k := &sentry{folder: o, signed: &signed{cert: []byte("c"), key: []byte("k")}}
	if err := k.write(); err == nil || !strings.Contains(err.Error(), "identity_directory_write: ") {
		t.Fatal(err)
	}
	if err := os.Remove(parent); err != nil {
		t.Fatal(err)
	}
	if err := k.write(); err != nil || !k.written {
		t.Error(err)
	}
}

// No token and no key is ever logged.
func TestNothingSecretIsLogged(t *testing.T) {
	const secret = "eyJhbGciOi-very-secret"
	path := filepath.Join(t.TempDir(), "token")
	newDisk(t).write(path, []byte(secret))
	logged := &strings.Builder{}
	change := func(o *Sentry) { o.TokenFile, o.Log = path, textLog(logged) }
	bubble(t, change, func(t *testing.T, p *signer, _ disk, s *Source) {
		if _, r := p.called(); r.Token != secret {
			t.Error("the token was not shown to sentry")
		}
		p.set(func() { p.err = status.Error(codes.PermissionDenied, "no") })
		pass(life/2 + poll)
	})
	if text := logged.String(); strings.Contains(text, "secret") || strings.Contains(text, "PRIVATE") ||
		!strings.Contains(text, "PermissionDenied") {
		t.Error(text)
	}
}
