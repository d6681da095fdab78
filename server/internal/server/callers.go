package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/clienttls"
	"github.com/carillonhq/carillon/server/internal/issuer"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/internal/rulesfile"
)

// Ways by which callers prove who they are, in Config.Auth.
const (
	AuthKeys         = "keys"         // by API keys
	AuthOIDC         = "oidc"         // by JWTs of an issuer
	AuthCertificates = "certificates" // by client certificates that have a rule
)

// OIDC says whose tokens are taken.
type OIDC struct {
	// Issuer is the URL of an OpenID Connect issuer: https, or http on loopback.
	Issuer string
	// Audience is what tokens must be for.
	Audience string
}

// ways returns the ways of Config.Auth, in order; none if callers are not judged.
func (c Config) ways() []string {
	if c.Auth == "" || c.Auth == None {
		return nil
	}
	all := strings.Split(c.Auth, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	slices.Sort(all)
	return all
}

// takes reports whether callers may prove who they are by a way.
func (c Config) takes(way string) bool { return slices.Contains(c.ways(), way) }

// judged reports whether callers must prove who they are.
func (c Config) judged() bool { return len(c.ways()) > 0 }

// authSetting says for the other nodes what callers are taken.
func (c Config) authSetting() string {
	if !c.judged() {
		return None
	}
	text := strings.Join(c.ways(), ",")
	if c.takes(AuthOIDC) {
		text += fmt.Sprintf(" (%s for %s)", c.OIDC.Issuer, c.OIDC.Audience)
	}
	return text
}

// issuer returns the settings of the issuer of tokens.
func (c Config) issuer() issuer.Config {
	return issuer.Config{URL: c.OIDC.Issuer, Audience: c.OIDC.Audience, Now: c.Now, Log: c.Log}
}

// rulesUse says about which credentials the rules may be.
func (c Config) rulesUse() rulesfile.Use {
	clients := c.Credentials.clients()
	return rulesfile.Use{Tokens: c.takes(AuthOIDC), Certificates: c.takes(AuthCertificates),
		IDsOnly: clients != nil && clients.IDsOnly}
}

// validateAuth refuses ways to authenticate that there are not, and settings that are missing for them or
// have no effect.
func (c Config) validateAuth() error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	ways := c.ways()
	for i, way := range ways {
		switch {
		case way == None:
			wrong("auth: none lets everybody in, so it stands alone")
		case !slices.Contains([]string{AuthKeys, AuthOIDC, AuthCertificates}, way):
			wrong("auth: %q is no way to authenticate callers; keys, oidc and certificates are, and none lets everybody in", way)
		case i > 0 && ways[i-1] == way:
			wrong("auth: %s stands there twice", way)
		}
	}
	if c.takes(AuthOIDC) {
		settings := c.issuer()
		if err := settings.Check(); err != nil {
			faults = append(faults, err)
		}
	} else if c.OIDC != (OIDC{}) {
		wrong("oidc_issuer, oidc_audience: they are for tokens, which this node does not take; add oidc to auth, or leave them out")
	}
	if c.takes(AuthCertificates) && !c.Credentials.knownOverHTTP() {
		wrong("auth: certificates are taken where clients must show one; give their authorities (tls_client_ca), or tls_spiffe")
	}
	if c.BootstrapKeyFile != "" && !c.takes(AuthKeys) { // what is in it counts on a store without keys alone
		wrong("bootstrap_key_file: this node takes no API keys; add keys to auth, or leave it out")
	}
	if use := c.rulesUse(); !use.Tokens && !use.Certificates {
		if c.AuthRules != "" {
			wrong("auth_rules: they are for tokens and certificates; add oidc or certificates to auth, or leave them out")
		}
	} else if c.AuthRules == "" {
		wrong("auth_rules: what is granted to callers with a token or a certificate? Give the file of rules")
	} else if _, err := rulesfile.Read(c.AuthRules, use); err != nil {
		wrong("auth_rules: %w", err)
	}
	return errors.Join(faults...)
}

// callers are those who show a token or a certificate.
type callers struct {
	rules  access.Rulebook
	issuer *issuer.Issuer // nil: no tokens are taken

	end  context.CancelFunc
	done sync.WaitGroup
}

// followCallers begins to follow the rules and the issuer's keys, if callers show tokens or certificates. The
// issuer need not answer yet.
func followCallers(n *Node) error {
	if n.config.AuthRules == "" {
		return nil
	}
	c := &callers{}
	file, err := rulesfile.Open(n.config.AuthRules, n.config.rulesUse(), &c.rules, n.config.Log)
	if err != nil {
		return fmt.Errorf("auth_rules: %w", err)
	}
	if c.rules.Len() == 0 {
		n.config.Log.Warn("the file of rules has none, so tokens and certificates are granted nothing",
			"file", n.config.AuthRules)
	}
	life, end := context.WithCancel(context.Background())
	c.end = end
	c.done.Go(func() { file.Follow(life) })
	if n.config.takes(AuthOIDC) {
		c.issuer = issuer.New(n.config.issuer())
		c.done.Go(func() { c.issuer.Follow(life) })
	}
	n.callers = c
	return nil
}

// close ends it; nil: there is none.
func (c *callers) close() {
	if c != nil {
		c.end()
		c.done.Wait()
	}
}

// gateOf is what the listeners of a node ask; nil: callers are not judged.
func gateOf(n *Node) (*access.Gate, error) {
	if n.keeper == nil && n.callers == nil {
		return nil, nil
	}
	g := &access.Gate{Now: n.config.Now}
	if n.keeper != nil {
		sessions, err := access.NewSessions(n.store.Meta().MACKey)
		if err != nil {
			return nil, err
		}
		g.Keys, g.Sessions = &n.keeper.ring, sessions
	}
	if c := n.callers; c != nil {
		g.Rules = &c.rules
		if c.issuer != nil {
			g.Verify = c.issuer.Verify
		}
		if n.config.takes(AuthCertificates) {
			g.Certificate = certificateOf(n.config.Credentials.Clients.Client)
		}
	}
	if n.member != nil {
		secret, node := peer.Secret(n.store.Meta().MACKey), n.config.Credentials.node()
		g.Node = func(ctx context.Context) bool { return peer.Known(ctx, secret, node) == nil }
	}
	return g, nil
}

// certificateOf returns what says of a call which certificate was shown; nil: none. Where certificates are
// judged the handshake has verified each, by an authority of clients or of nodes.
func certificateOf(ofClient func(*tls.ConnectionState) bool) func(context.Context) *access.Certificate {
	return func(ctx context.Context) *access.Certificate { return shown(ctx, ofClient) }
}

func shown(ctx context.Context, ofClient func(*tls.ConnectionState) bool) *access.Certificate {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	cert := info.State.PeerCertificates[0]
	c := &access.Certificate{Expires: cert.NotAfter, Foreign: !ofClient(&info.State)}
	if id, ok := clienttls.ID(cert); ok {
		c.SPIFFE = id
	}
	// Otherwise it was verified as a SPIFFE id alone, by the authority of whatever trust domain.
	if len(info.State.VerifiedChains) > 0 {
		c.DNS, c.CN, c.Subject = cert.DNSNames, cert.Subject.CommonName, cert.Subject.String()
	}
	return c
}
