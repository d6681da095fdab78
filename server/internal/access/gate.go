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
	Keys *Keyring
	Now  func() time.Time // the node's clock
	// Node reports whether a call of gRPC comes from a node of the cluster. Nil: there are no others.
	Node func(ctx context.Context) bool
}

// errNone is the answer to who shows no credential.
var errNone = carillon.Errorf(carillon.Unauthenticated, "",
	"no credential was given: show an API key, as Authorization: Bearer ck_…")

// Identify returns the principal of the values of the header or metadata "authorization".
func (g *Gate) Identify(authorization []string) (*Principal, error) {
	if len(authorization) == 0 {
		return nil, errNone
	}
	if len(authorization) > 1 {
		return nil, carillon.Errorf(carillon.Unauthenticated, "", "more than one credential was given")
	}
	scheme, token, ok := strings.Cut(authorization[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return nil, carillon.Errorf(carillon.Unauthenticated, "",
			"the credential is none that this node takes: show an API key, as Authorization: Bearer ck_…")
	}
	return g.Keys.Find(token, g.Now())
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
	p, err := g.Identify(authorization)
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
	switch {
	case p == nil:
		return errNone
	case p.from != nil && (p.from.ended() || p.from.expired(g.Now())):
		return errKey // while a stream went on
	case free(method):
		return nil
	}
	return Judge(p, method, m)
}

// ended reports whether the key was revoked.
func (e *entry) ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gone
}

// Alive returns nil unless the caller in ctx has lost its credential meanwhile.
func (g *Gate) Alive(ctx context.Context) error {
	if p := From(ctx); p != nil && p.from != nil && (p.from.ended() || p.from.expired(g.Now())) {
		return errKey
	}
	return nil
}

// Metrics returns nil if the caller in ctx may read the node's metrics, which are about all namespaces.
func (g *Gate) Metrics(ctx context.Context) error {
	p := From(ctx)
	if p == nil {
		return errNone
	}
	return p.judge(&demand{does: read, namespaces: []string{everywhere}})
}

// Hold returns a context that ends when the caller's key does; release must be called.
func (g *Gate) Hold(ctx context.Context) (held context.Context, release func()) {
	if p := From(ctx); p != nil {
		return p.Hold(ctx, g.Now())
	}
	return ctx, func() {}
}
