package nodetls

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/internal/clienttls"
)

// Files says which files have the certificates, all PEM. They are read again within about a second when they
// change. A change that is wrong is logged, and what was before it stays in force.
type Files struct {
	// Cert has the certificate of this node, then those that lead up to an authority. Clients and other nodes
	// verify it by the host at which they reach the node, unless they are told another name. Required.
	Cert string
	// Key has the private key of the certificate. Required.
	Key string
	// ClientCA has the certificates that clients are verified against, which then must show one. Default:
	// clients need none.
	ClientCA string
	// Peers is for a node that others may share a store with.
	Peers Peers
	// Log is told of changes and of what goes wrong. Default: nothing is.
	Log *slog.Logger
}

// Peers says how nodes know each other.
type Peers struct {
	// CA is a file with the certificates that nodes verify each other against, in both directions.
	CA string
	// Name is what the certificates of all nodes have in common: a DNS name, or a SPIFFE id in which * stands
	// for any one part. Default: a node that is called must have the host of its address, and one that calls
	// any name.
	Name string
}

// Names are what the settings are called in errors, for example "--tls-cert".
type Names struct{ Cert, Key, ClientCA, PeerCA, PeerName string }

// poll is how often files are looked at.
const poll = time.Second

// FromFiles reads the files, and again when they change, until Close. Its error names everything that is
// wrong.
func FromFiles(o Files, names Names) (*Source, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	name, err := clienttls.ParseName(o.Peers.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names.PeerName, err)
	}
	f := &files{o: o, names: names, peer: name}
	if err := f.look(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.watch(ctx)
	}()
	return &Source{from: f, anyone: o.ClientCA == "", end: func() {
		cancel()
		<-done
	}}, nil
}

// files keeps what is in files.
type files struct {
	o     Files
	names Names
	peer  clienttls.Name
	now   atomic.Pointer[material] // in force
	host  atomic.Pointer[string]   // at which other nodes reach this one; nil: it is not known yet
	raw   content                  // what it is made of; the goroutine's, as the rest
	seen  content                  // by the last look
	again bool                     // the look before it has seen the same
	told  bool                     // the fault of what was seen was logged
	ended *material                // whose end was logged
}

// content is what the files hold.
type content struct {
	cert, key, clients, nodes []byte
	unread                    string // why some could not be read
}

func (c *content) equal(other *content) bool {
	return bytes.Equal(c.cert, other.cert) && bytes.Equal(c.key, other.key) &&
		bytes.Equal(c.clients, other.clients) && bytes.Equal(c.nodes, other.nodes) &&
		c.unread == other.unread
}

// watch looks at the files until ctx ends.
func (f *files) watch(ctx context.Context) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.report(f.look())
		case <-ctx.Done():
			return
		}
	}
}

// report logs a fault once, when two looks have seen the same files: those that are replaced one after the
// other do not fit for a moment. The errors of two looks may differ, since some have the time in them. It
// logs once that the certificate has ended.
func (f *files) report(err error) {
	if err == nil || !f.again {
		f.told = false
	} else if !f.told {
		f.told = true
		f.o.Log.Error("new TLS files cannot be used: what was read before stays in force", "error", err)
	}
	m := f.now.Load()
	if end := m.leaf().NotAfter; time.Now().After(end) && f.ended != m {
		f.ended = m
		f.o.Log.Error("the certificate of this node has ended: nobody can connect any more",
			"file", f.o.Cert, "ended", end.UTC())
	}
}

// look reads the files, and puts what they hold in force if it has changed and is right as a whole: files
// that are replaced one after the other may not fit meanwhile.
func (f *files) look() error {
	raw, err := f.read()
	f.again, f.seen = raw.equal(&f.seen), *raw
	if err != nil {
		return err
	}
	before := f.now.Load()
	if before != nil && raw.equal(&f.raw) {
		return nil
	}
	m, err := f.parse(raw)
	if err != nil {
		return err
	}
	f.raw = *raw
	f.now.Store(m)
	if before == nil || !before.leaf().Equal(m.leaf()) {
		leaf := m.leaf()
		f.o.Log.Info("certificate of this node", "names", clienttls.NamesIn(leaf), "until", leaf.NotAfter.UTC())
	} else {
		f.o.Log.Info("certificates that clients and nodes are verified against were read again")
	}
	return nil
}

func (f *files) read() (*content, error) {
	var c content
	var faults []error
	for _, one := range []struct {
		name, path string
		into       *[]byte
	}{{f.names.Cert, f.o.Cert, &c.cert}, {f.names.Key, f.o.Key, &c.key},
		{f.names.ClientCA, f.o.ClientCA, &c.clients}, {f.names.PeerCA, f.o.Peers.CA, &c.nodes}} {
		if one.path == "" {
			continue
		}
		text, err := os.ReadFile(one.path)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", one.name, err))
		}
		*one.into = text
	}
	err := errors.Join(faults...)
	if err != nil {
		c.unread = err.Error()
	}
	return &c, err
}

// parse reads what the files hold. Its error names everything that is wrong.
func (f *files) parse(raw *content) (*material, error) {
	m := &material{clientCA: f.o.ClientCA != "", peer: f.peer}
	var faults []error
	wrong := func(name, path string, err error) {
		faults = append(faults, fmt.Errorf("%s: %s: %w", name, path, err))
	}
	for _, one := range []struct {
		name, path string
		text       []byte
	}{{f.names.Cert, f.o.Cert, raw.cert}, {f.names.Key, f.o.Key, raw.key}} {
		if err := clienttls.Whole(one.text); err != nil {
			wrong(one.name, one.path, err)
		}
	}
	var err error
	if m.pair, err = tls.X509KeyPair(raw.cert, raw.key); err != nil {
		faults = append(faults, fmt.Errorf("%s %s, %s %s: %w", f.names.Cert, f.o.Cert, f.names.Key, f.o.Key, err))
	} else if err := inTime(m.leaf()); err != nil {
		wrong(f.names.Cert, f.o.Cert, err)
	}
	var clients []*x509.Certificate
	if f.o.ClientCA != "" {
		if clients, err = clienttls.Certificates(raw.clients); err != nil {
			wrong(f.names.ClientCA, f.o.ClientCA, err)
		}
	}
	if f.o.Peers.CA != "" {
		if m.nodes, err = clienttls.Certificates(raw.nodes); err != nil {
			wrong(f.names.PeerCA, f.o.Peers.CA, err)
		}
	}
	if len(faults) == 0 && f.o.Peers.CA != "" {
		if err := cmp.Or(m.ownedByNode(), f.accepted(m.leaf())); err != nil {
			faults = append(faults, fmt.Errorf("%s %s, %s %s: other nodes would refuse this one: %w", f.names.Cert,
				f.o.Cert, f.names.PeerCA, f.o.Peers.CA, err))
		}
	}
	m.admit(clients)
	return m, errors.Join(faults...)
}

// inTime returns an error if a certificate is not valid now.
func inTime(cert *x509.Certificate) error {
	switch now := time.Now(); {
	case now.After(cert.NotAfter):
		return fmt.Errorf("the certificate has ended, at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		return fmt.Errorf("the certificate begins at %s: it is not valid yet, or this machine's clock is wrong",
			cert.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

func (f *files) listener(http bool) (*tls.Config, error) { return f.now.Load().listener(http), nil }

func (f *files) connection() (*tls.Config, error) { return f.now.Load().connection(), nil }

func (f *files) isNode(verified *tls.ConnectionState) error { return f.now.Load().isNode(verified) }

func (f *files) isClient(verified *tls.ConnectionState) bool {
	return signed(verified, f.now.Load().clients)
}

func (f *files) leaf() (*x509.Certificate, error) { return f.now.Load().leaf(), nil }

func (f *files) reachedAt(host string) error {
	f.host.Store(&host)
	return f.accepted(f.now.Load().leaf())
}

// accepted returns an error if other nodes would refuse a certificate for what it names.
func (f *files) accepted(leaf *x509.Certificate) error {
	if host := f.host.Load(); host != nil && f.o.Peers.Name == "" {
		return leaf.VerifyHostname(*host)
	}
	return f.peer.Of(leaf)
}
