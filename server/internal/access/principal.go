package access

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// Kind is how a principal has proved who it is.
type Kind string

// The kinds.
const (
	KindKey         Kind = "key"         // by an API key
	KindToken       Kind = "oidc"        // by a JWT of the issuer
	KindCertificate Kind = "certificate" // by a client's certificate
	KindNode        Kind = "node"        // as a node of the cluster, for a worker that it has let in
)

// Principal is a caller.
type Principal struct {
	Kind    Kind
	ID      string // of a key; issuer and subject of a JWT; of a certificate its SPIFFE id, or its subject
	Grants  []carillon.AccessGrant
	Expires time.Time // zero: never

	from   *bond // what the grants rest on; nil: nothing that ends
	secret Hash  // of the key's secrets the one that was shown; KindKey's
}

// String names the principal as a creator of keys.
func (p *Principal) String() string { return strings.TrimSpace(string(p.Kind) + " " + p.ID) }

// ShowsNewest refuses a principal that has shown a secret of a key that is not the newest one, by the keys as
// the store has them: another node may have rotated or revoked the key a moment ago. They are in the order of
// their ids. An old secret may have leaked: whoever has it would put out those who have the newest, by
// rotating or revoking the key, or by another one that he makes and that does so. When it ends does not tell:
// the overlap of a key that ends may end with the key.
func (p *Principal) ShowsNewest(keys []Key) error {
	if p.Kind != KindKey {
		return nil
	}
	i, found := FindID(keys, p.ID)
	switch {
	case found && keys[i].Hash == p.secret:
		return nil
	case found && keys[i].Before == p.secret:
		return errSuperseded
	}
	return errKey
}

var errSuperseded = carillon.Errorf(carillon.PermissionDenied, "",
	"the API key that was shown has a newer secret: make, rotate and revoke keys with that one")

// FindID looks for a key among those that are in the order of their ids.
func FindID(keys []Key, id string) (i int, found bool) {
	return slices.BinarySearchFunc(keys, id, func(k Key, id string) int { return strings.Compare(k.ID, id) })
}

type contextKey struct{}

// With returns ctx with its principal.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the principal of a call; nil: it has none.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(contextKey{}).(*Principal)
	return p
}

// node is what a node may do on behalf of a worker.
func node() *Principal {
	return &Principal{Kind: KindNode, Grants: []carillon.AccessGrant{{Role: carillon.RoleWorker,
		Namespaces: []string{everywhere}}}}
}

// everywhere are all namespaces.
const everywhere = "*"

// covers reports whether a pattern has all namespaces that another has, which may be a name.
func covers(pattern, other string) bool {
	prefix, open := strings.CutSuffix(pattern, everywhere)
	if !open {
		return pattern == other
	}
	return strings.HasPrefix(strings.TrimSuffix(other, everywhere), prefix)
}

// within reports whether a grant is for a namespace or pattern.
func within(g *carillon.AccessGrant, namespace string) bool {
	return slices.ContainsFunc(g.Namespaces, func(p string) bool { return covers(p, namespace) })
}

// may reports whether one of the roles is granted in a namespace, for a queue; "": for no queue.
func (p *Principal) may(roles []carillon.Role, namespace, queue string) bool {
	for i := range p.Grants {
		g := &p.Grants[i]
		if slices.Contains(roles, g.Role) && within(g, namespace) &&
			(queue == "" || len(g.Queues) == 0 || slices.Contains(g.Queues, queue)) {
			return true
		}
	}
	return false
}

// knows reports whether anything is granted in a namespace.
func (p *Principal) knows(namespace string) bool {
	return slices.ContainsFunc(p.Grants, func(g carillon.AccessGrant) bool { return within(&g, namespace) })
}

// AdministersAll reports whether the principal has the role admin everywhere.
func (p *Principal) AdministersAll() bool { return p.may(administer.roles, everywhere, "") }

// Administers reports whether the principal has the role admin on all namespaces of grants.
func (p *Principal) Administers(grants []carillon.AccessGrant) bool {
	for i := range grants {
		for _, namespace := range grants[i].Namespaces {
			if !p.may(administer.roles, namespace, "") {
				return false
			}
		}
	}
	return true
}
