package daprtls

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serial is of the certificate in force.
func serial(tb testing.TB, s *Source) string {
	tb.Helper()
	svid, err := s.GetX509SVID()
	if err != nil {
		tb.Fatal(err)
	}
	return svid.Certificates[0].SerialNumber.String()
}

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func TestFilesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		disk := newDisk(t)
		disk.hold(a, leaf(t, nodeName))
		s, err := FromFiles(disk.files())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(0)
		first := serial(t, s)
		shape := leaf(t, nodeName)
		disk.hold(a, shape)
		pass(poll)
		if got := serial(t, s); got == first || got != shape.SerialNumber.String() {
			t.Errorf("certificate %s is in force, not %s that is in the file", got, shape.SerialNumber)
		}
		s.Close()
		if err := s.Err(); err != nil {
			t.Error("closed:", err)
		}
	})
}

// What is wrong in the files changes nothing, and is logged once.
func TestAWrongFileChangesNothing(t *testing.T) {
	for name, spoil := range map[string]func(*authority, disk){
		"a certificate without its key": func(a *authority, d disk) {
			cert, _ := a.issue(leaf(a.tb, nodeName))
			d.write(d.cert, cert)
		},
		"a key without its certificate": func(a *authority, d disk) {
			_, key := a.issue(leaf(a.tb, nodeName))
			d.write(d.key, key)
		},
		"a certificate that is cut off": func(a *authority, d disk) {
			d.write(d.cert, []byte("-----BEGIN CERTIFICATE-----\nAAAA"))
		},
		"no certificate":                 func(_ *authority, d disk) { _ = os.Remove(d.cert) },
		"no key":                         func(_ *authority, d disk) { _ = os.Remove(d.key) },
		"no trust anchors":               func(_ *authority, d disk) { _ = os.Remove(d.root) },
		"an empty file of trust anchors": func(_ *authority, d disk) { d.write(d.root, nil) },
		"a key as trust anchors": func(a *authority, d disk) {
			_, key := a.issue(leaf(a.tb, nodeName))
			d.write(d.root, key)
		},
		"the certificate of a sidecar": func(a *authority, d disk) { d.hold(a, leaf(a.tb, appName)) },
		"a certificate without a name": func(a *authority, d disk) { d.hold(a, leaf(a.tb, "")) },
		"a certificate that has ended": func(a *authority, d disk) {
			shape := leaf(a.tb, nodeName)
			shape.NotAfter = time.Now().Add(-time.Hour)
			d.hold(a, shape)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, disk, logged := newAuthority(t), newDisk(t), &bytes.Buffer{}
				disk.hold(a, leaf(t, nodeName))
				o := disk.files()
				o.Log = textLog(logged)
				s, err := FromFiles(o)
				if err != nil {
					t.Fatal(err)
				}
				pass(0) // its goroutine has had its first look
				before := serial(t, s)
				spoil(a, disk)
				pass(10 * poll)
				if got := serial(t, s); got != before {
					t.Error("the identity changed")
				}
				s.Close()
				if got := strings.Count(logged.String(), "level=WARN"); got != 1 {
					t.Errorf("%d warnings, want 1:\n%s", got, logged)
				}
				if _, err := FromFiles(o); err == nil {
					t.Error("a node starts with it")
				}
			})
		})
	}
}

// Keys come in the forms that OpenSSL writes as well.
func TestOlderFormsOfKeys(t *testing.T) {
	a := newAuthority(t)
	disk := newDisk(t)
	disk.hold(a, leaf(t, nodeName))
	key := newKey(t)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	disk.write(disk.key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	disk.write(disk.cert, a.sign(leaf(t, nodeName), key.Public()))
	s, _ := fromFiles(t, disk.files())
	if svid, err := s.GetX509SVID(); err != nil || !key.Equal(svid.PrivateKey.(*ecdsa.PrivateKey)) {
		t.Error("another key is in force", err)
	}
}

func TestAnIdentityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		disk.hold(newAuthority(t), leaf(t, nodeName))
		s, _ := fromFiles(t, disk.files())
		pass(life)
		if err := s.Err(); err != nil {
			t.Error("too early:", err)
		}
		pass(2 * poll)
		if err := s.Err(); !errors.Is(err, ErrNoIdentity) ||
			!strings.Contains(err.Error(), "ended at 2000-01-01T00:10:00Z") {
			t.Error(err)
		}
	})
}

func TestWrongOptions(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		says []string
	}{
		"no files": {Files{}.Validate(), []string{"tls_cert_file: ", "tls_key_file: ", "tls_ca_file: "}},
		"domains": {Files{Cert: "a", Key: "b", CA: "c",
			ClientTrustDomains: []string{"ok", "A B", "spiffe://x/y"}}.Validate(),
			[]string{`client_trust_domains[1]: "A B"`, `client_trust_domains[2]: "spiffe://x/y"`}},
		"no anchors": {Sentry{}.Validate(), []string{"trust_anchors_file: "}},
		"address": {Sentry{TrustAnchorsFile: "x", Address: "localhost"}.Validate(),
			[]string{"sentry_address: "}},
		"names": {Sentry{TrustAnchorsFile: "x", TrustDomain: "a/b", Namespace: "c d"}.Validate(),
			[]string{`trust_domain "a/b", namespace "c d"`}},
		"folder": {Sentry{TrustAnchorsFile: "x", WriteTo: t.TempDir()}.Validate(),
			[]string{"identity_directory_write: ", "exists already"}},
	} {
		for _, want := range c.says {
			if c.err == nil || !strings.Contains(c.err.Error(), want) {
				t.Errorf("%s: %v does not say %s", name, c.err, want)
			}
		}
	}
	if err := (Sentry{TrustAnchorsFile: "x"}).Validate(); err != nil {
		t.Error("the defaults:", err)
	}
	t.Setenv(tokenFileVariable, "")
	if err := (Sentry{TrustAnchorsFile: "x"}).Validate(); err == nil ||
		!strings.Contains(err.Error(), tokenFileVariable) {
		t.Error("an empty variable:", err)
	}
}
