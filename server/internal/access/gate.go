package access

import (
	"context"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// Gate is what the listeners ask.
type Gate struct {
	// Keys are the API keys. Nil: none are taken.
	Keys *Keyring
	// Sessions are those of browsers, by keys. Nil: none are taken.
	Sessions *Sessions
	// Verify returns what a JWT says, or an Unauthenticated if it is wrong, or an Unavailable if that cannot be
	// told now. Nil: none are taken.
	Verify func(ctx context.Context, token string) (*Token, error)
	// Certificate returns what the client's certificate of a call says; nil: it has shown none. Nil: rules for
	// certificates count for nothing.
	Certificate func(ctx context.Context) *Certificate
	// Rules say what is granted to callers with a JWT or a certificate. Nil: nothing.
	Rules *Rulebook

	Now func() time.Time // the node's clock
	// Node reports whether a call of gRPC comes from a node of the cluster. Nil: there are no others.
	Node func(ctx context.Context) bool
}

// Shown is what a caller shows besides a certificate.
type Shown struct {
	Authorization []string // the values of the header or metadata of that name
	Session       string   // of a browser; "": none
}

func (s *Shown) none() bool { return len(s.Authorization) == 0 && s.Session == "" }

// Identify returns the principal of a call. A certificate that has a rule comes first. What is shown besides
// must be right, too: a wrong credential is never treated as none.
func (g *Gate) Identify(ctx context.Context, shown Shown) (*Principal, error) {
	var certificate *Certificate
	var by *Principal
	if g.Certificate != nil {
		if certificate = g.Certificate(ctx); certificate != nil {
			by = g.Rules.ofCertificate(certificate)
		}
	}
	if shown.none() {
		switch {
		case by != nil:
			return by, nil
		case certificate != nil:
			return nil, carillon.Errorf(carillon.Unauthenticated, "",
				"there is no rule for the certificate (%s), and no other credential was given", certificate)
		}
		return nil, g.none()
	}
	p, err := g.credential(ctx, shown)
	if err == nil && by != nil {
		return by, nil
	}
	return p, err
}

// credential returns the principal of a bearer token or a session. What else a browser is made to show beside
// its session does not win over it.
func (g *Gate) credential(ctx context.Context, shown Shown) (*Principal, error) {
	switch {
	case shown.Session == "":
		return g.bearer(ctx, shown.Authorization)
	case len(shown.Authorization) > 0:
		return nil, errSeveral
	}
	return g.ofSession(shown.Session)
}

// errSeveral is the answer to who shows more than one credential.
var errSeveral = carillon.Errorf(carillon.Unauthenticated, "", "more than one credential was given")

// bearer returns the principal of a bearer token.
func (g *Gate) bearer(ctx context.Context, authorization []string) (*Principal, error) {
	if len(authorization) > 1 {
		return nil, errSeveral
	}
	scheme, token, ok := strings.Cut(authorization[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return nil, carillon.Errorf(carillon.Unauthenticated, "",
			"the credential is none that this node takes: %s", g.takes())
	}
	if strings.HasPrefix(token, keyPrefix) || g.Verify == nil {
		if g.Keys == nil {
			return nil, carillon.Errorf(carillon.Unauthenticated, "",
				"the credential is none that this node takes: %s", g.takes())
		}
		return g.Keys.Find(token, g.Now())
	}
	t, err := g.Verify(ctx, token)
	if err != nil {
		return nil, err
	}
	return g.Rules.ofToken(t), nil
}

// takes says what callers may show.
func (g *Gate) takes() string {
	var all []string
	if g.Certificate != nil {
		all = append(all, "a certificate that has a rule")
	}
	if g.Keys != nil {
		all = append(all, "an API key, as Authorization: Bearer ck_…")
	}
	if g.Verify != nil {
		all = append(all, "a token of the issuer, as Authorization: Bearer …")
	}
	return "show " + strings.Join(all, ", or ")
}

// none is the answer to who shows no credential.
func (g *Gate) none() error {
	return carillon.Errorf(carillon.Unauthenticated, "", "no credential was given: %s", g.takes())
}

// Caller returns the principal of a call of gRPC; authorization is its metadata. Nil: the call is open to
// all. A node that reaches out for a worker may show that it is one in place of a key.
func (g *Gate) Caller(ctx context.Context, method string, authorization []string) (*Principal, error) {
	switch {
	case open(method):
		return nil, nil
	case len(authorization) == 0 && method == pb.SchedulerService_Work_FullMethodName &&
		g.Node != nil && g.Node(ctx):
		return node(), nil
	}
	p, err := g.Identify(ctx, Shown{Authorization: authorization})
	if _, known := table[method]; err == nil && !known && !free(method) {
		return nil, unknown(method) // at once, also if it is a stream on which nothing is said
	}
	return p, err
}

// open reports whether a method is judged by itself, or is for everyone: the services between nodes have a
// secret of their own, and a health check says no more than whether the node serves.
func open(method string) bool {
	return strings.HasPrefix(method, "/carillon.peer.v1.") || method == "/grpc.health.v1.Health/Check"
}

// free reports whether a method is for everybody who has shown who he is.
func free(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.") || strings.HasPrefix(method, "/grpc.reflection.")
}

// Judge returns nil if the caller in ctx may make a call with this message; see [Judge].
func (g *Gate) Judge(ctx context.Context, method string, m any) error {
	if open(method) {
		return nil
	}
	p := From(ctx)
	if p == nil {
		return g.none()
	}
	if err := p.lost(g.Now()); err != nil || free(method) { // lost: while a stream went on
		return err
	}
	return Judge(p, method, m)
}

// Alive returns nil unless the caller in ctx has lost its credential meanwhile.
func (g *Gate) Alive(ctx context.Context) error {
	if p := From(ctx); p != nil {
		return p.lost(g.Now())
	}
	return nil
}

// Metrics returns nil if the caller in ctx may read the node's metrics, which are about all namespaces.
func (g *Gate) Metrics(ctx context.Context) error {
	p := From(ctx)
	if p == nil {
		return g.none()
	}
	return p.judge(&demand{does: read, namespaces: []string{everywhere}})
}

// Hold returns a context that ends when the caller's credential does; release must be called.
func (g *Gate) Hold(ctx context.Context) (held context.Context, release func()) {
	if p := From(ctx); p != nil {
		return p.Hold(ctx, g.Now())
	}
	return ctx, func() {}
}
