package nodetls

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/carillonhq/carillon/server/internal/clienttls"
)

// Workload says how the identity is had from the SPIFFE Workload API, for example of a SPIRE agent.
type Workload struct {
	// Address of the API: unix:///run/spire/agent.sock, or tcp://IP:PORT. Required.
	Address string
	// PeerName is the SPIFFE id of the nodes of a store, in which * stands for any one part. Default: that of
	// this node.
	PeerName string
	// Log is told of what goes wrong. Default: nothing is.
	Log *slog.Logger
}

// Validate checks the settings without a connection.
func (o Workload) Validate(names Names, address string) error {
	var faults []error
	if err := workloadapi.ValidateAddress(o.Address); err != nil {
		faults = append(faults, fmt.Errorf("%s: %q: %w", address, o.Address, err))
	}
	name, err := clienttls.ParseName(o.PeerName)
	if err == nil && name.Host() != "" {
		err = fmt.Errorf("%q is no SPIFFE id, spiffe://…, and nodes have nothing else from the Workload API", o.PeerName)
	}
	if err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", names.PeerName, err))
	}
	return errors.Join(faults...)
}

// FromWorkloadAPI waits for an identity until ctx ends, and keeps it as the API does until Close. Every
// client must show an identity that the API has trust anchors for: of this trust domain, or of one that it is
// federated with. The options are valid.
func FromWorkloadAPI(ctx context.Context, o Workload) (*Source, error) {
	log := apiLog{cmp.Or(o.Log, slog.New(slog.DiscardHandler))}
	source, err := workloadapi.NewX509Source(ctx,
		workloadapi.WithClientOptions(workloadapi.WithAddr(o.Address), workloadapi.WithLogger(log)))
	if err != nil {
		return nil, fmt.Errorf("no identity from the Workload API at %s: %w", o.Address, err)
	}
	name, err := clienttls.ParseName(o.PeerName)
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	w := &workloadOrigin{source: source, given: o.PeerName != "", peer: name}
	own, err := source.GetX509SVID()
	if err == nil {
		err = w.matches(own.ID, own.Certificates[0])
	}
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	log.log.Info("identity of this node", "spiffe_id", own.ID.String(),
		"until", own.Certificates[0].NotAfter.UTC())
	return &Source{from: w, end: func() {
		if err := source.Close(); err != nil {
			log.log.Warn("close the connection to the Workload API", "error", err)
		}
	}}, nil
}

// workloadOrigin is an identity of the Workload API.
type workloadOrigin struct {
	source *workloadapi.X509Source
	given  bool // a name of nodes
	peer   clienttls.Name
}

// matches returns nil if an identity is that of a node.
func (w *workloadOrigin) matches(id spiffeid.ID, cert *x509.Certificate) error {
	if w.given {
		return w.peer.Of(cert)
	}
	own, err := w.source.GetX509SVID()
	if err != nil {
		return err
	}
	if id != own.ID {
		return fmt.Errorf("%w: it is called %s, and all nodes are called %s", errNoNode, id, own.ID)
	}
	return nil
}

func (w *workloadOrigin) listener(http bool) (*tls.Config, error) {
	config := tlsconfig.MTLSServerConfig(w.source, w.source, tlsconfig.AuthorizeAny())
	if http {
		verify := config.VerifyPeerCertificate
		config.ClientAuth, config.SessionTicketsDisabled = tls.RequestClientCert, true
		config.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			if len(raw) == 0 {
				return nil // the handler refuses it
			}
			return verify(raw, chains)
		}
	}
	return config, nil
}

func (w *workloadOrigin) connection() (*tls.Config, error) {
	return tlsconfig.MTLSClientConfig(w.source, w.source,
		func(id spiffeid.ID, chains [][]*x509.Certificate) error { return w.matches(id, chains[0][0]) }), nil
}

func (w *workloadOrigin) isNode(verified *tls.ConnectionState) error {
	id, err := x509svid.IDFromCert(verified.PeerCertificates[0])
	if err != nil {
		return fmt.Errorf("%w: %w", errNoNode, err)
	}
	return w.matches(id, verified.PeerCertificates[0])
}

// isClient implements origin: clients and nodes have the same authorities.
func (*workloadOrigin) isClient(*tls.ConnectionState) bool { return true }

func (w *workloadOrigin) leaf() (*x509.Certificate, error) {
	own, err := w.source.GetX509SVID()
	if err != nil {
		return nil, err
	}
	return own.Certificates[0], nil
}

// reachedAt implements origin. FromWorkloadAPI has checked it: the host does not matter.
func (*workloadOrigin) reachedAt(string) error { return nil }

// apiLog takes what go-spiffe logs.
type apiLog struct{ log *slog.Logger }

func (l apiLog) Debugf(format string, args ...any) { l.say(slog.LevelDebug, format, args) }
func (l apiLog) Infof(format string, args ...any)  { l.say(slog.LevelDebug, format, args) }
func (l apiLog) Warnf(format string, args ...any)  { l.say(slog.LevelWarn, format, args) }
func (l apiLog) Errorf(format string, args ...any) { l.say(slog.LevelWarn, format, args) }

func (l apiLog) say(level slog.Level, format string, args []any) {
	l.log.Log(context.Background(), level, "Workload API: "+fmt.Sprintf(format, args...))
}
