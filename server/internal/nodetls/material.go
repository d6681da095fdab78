package nodetls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/server/internal/clienttls"
)

// material is what files hold at a moment. It does not change.
type material struct {
	pair     tls.Certificate
	clientCA bool                // clients must show a certificate
	admitted *x509.CertPool      // who signs those of clients and of nodes
	clients  []*x509.Certificate // who signs those of clients
	nodes    []*x509.Certificate // who signs those of nodes; nil: there are no others
	peer     clienttls.Name      // that all nodes have
}

func (m *material) leaf() *x509.Certificate { return m.pair.Leaf }

// admit sets who may show a certificate.
func (m *material) admit(clients []*x509.Certificate) {
	m.clients, m.admitted = clients, clienttls.Pool(slices.Concat(clients, m.nodes))
}

// ownedByNode returns an error if other nodes would not accept the certificate, as one that is called or as
// one that calls.
func (m *material) ownedByNode() error {
	between := x509.NewCertPool()
	for _, der := range m.pair.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		between.AddCert(cert)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := m.leaf().Verify(x509.VerifyOptions{Roots: clienttls.Pool(m.nodes), Intermediates: between,
			KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return fmt.Errorf("as a certificate of a %s: %w", usages[usage], err)
		}
	}
	return m.peer.Of(m.leaf())
}

// usages are what certificates may be used for, as a reader knows them.
var usages = map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server (extended key usage serverAuth)",
	x509.ExtKeyUsageClientAuth: "client (extended key usage clientAuth)"}

// listener is the configuration of one connection.
func (m *material) listener(http bool) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{m.pair}}
	switch {
	case m.clientCA && http:
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, m.admitted
	case m.clientCA:
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, m.admitted
	case m.nodes != nil && !http: // nodes do not call each other by HTTP
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, m.admitted
	}
	return config
}

// connection is the configuration of one connection to another node.
func (m *material) connection() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	m.peer.Demand(config, m.nodes)
	config.Certificates = []tls.Certificate{m.pair} // last: the name of a SPIFFE id resets it
	return config
}

// errNoNode is why a caller is not taken for a node.
var errNoNode = errors.New("the caller shows no certificate of a node")

// signed reports whether a chain that the handshake has verified ends in one of the authorities.
func signed(verified *tls.ConnectionState, by []*x509.Certificate) bool {
	return slices.ContainsFunc(verified.VerifiedChains, func(chain []*x509.Certificate) bool {
		return slices.ContainsFunc(by, chain[len(chain)-1].Equal)
	})
}

// isNode goes by the chain that the handshake has verified.
func (m *material) isNode(verified *tls.ConnectionState) error {
	if !signed(verified, m.nodes) {
		return errNoNode
	}
	if err := m.peer.Of(verified.PeerCertificates[0]); err != nil {
		return fmt.Errorf("%w: %w", errNoNode, err)
	}
	return nil
}
