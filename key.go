package carillon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Role is what somebody may do. Each but the worker's includes those before it.
type Role string

// The roles.
const (
	RoleViewer   Role = "viewer"   // read
	RoleWorker   Role = "worker"   // take runs of queues and report their results, and nothing else
	RoleProducer Role = "producer" // put, patch, delete and trigger jobs
	RoleOperator Role = "operator" // pause, redrive, cancel, backfill, purge; queues and calendars
	RoleAdmin    Role = "admin"    // settings and keys; on all namespaces also the cluster; and work
)

// Roles returns all roles.
func Roles() []Role {
	return []Role{RoleViewer, RoleWorker, RoleProducer, RoleOperator, RoleAdmin}
}

// AccessGrant lets a role act in namespaces.
type AccessGrant struct {
	Role Role
	// Namespaces are names, or how names begin, followed by "*".
	Namespaces []string
	// Queues, of [RoleWorker] alone, are those whose runs it may take. Empty: all.
	Queues []string
}

// AccessKey is an API key, without its secret.
type AccessKey struct {
	ID       string
	Grants   []AccessGrant
	Note     string
	Creator  string
	Created  time.Time
	Expires  time.Time // zero: never
	LastUsed time.Time // the hour; zero: never

	Rotated     time.Time // when it last got another secret; zero: never
	Rotator     string    // who did that, as Creator
	OverlapEnds time.Time // until then the secret before is valid, too; zero: it is not
}

// NewKey is what is asked of a new key.
type NewKey struct {
	Grants  []AccessGrant
	Note    string
	Expires time.Time // zero: never
}

// CreatedKey is a key with its new secret, which is not kept.
type CreatedKey struct {
	Key    AccessKey
	Secret string // what callers show, "ck_…"
}

// KeyQuery selects a page of keys.
type KeyQuery struct {
	PageSize  int // default 100, at most [MaxBatch]
	PageToken string
}

// KeyPage is a page of keys, in the order of their ids.
type KeyPage struct {
	Keys          []AccessKey
	NextPageToken string
}

// Access keeps the API keys of a store. Package client implements it.
type Access interface {
	// CreateKey returns once the key is durable.
	CreateKey(ctx context.Context, k NewKey) (CreatedKey, error)
	ListKeys(ctx context.Context, q KeyQuery) (KeyPage, error)
	// RotateKey gives a key another secret, and returns once that is durable, with the nodes that have not
	// confirmed it in time. The secret before is valid for the overlap, of at most [MaxKeyOverlap], too. While
	// two secrets are valid it must be 0, which ends both; otherwise → FailedPrecondition. Unknown → NotFound.
	RotateKey(ctx context.Context, id string, overlap time.Duration) (k CreatedKey, unheard []string, err error)
	// RevokeKey ends a key, and returns the nodes that have not confirmed it in time; unknown → NotFound.
	RevokeKey(ctx context.Context, id string) (unheard []string, err error)
}

// Limits of API keys.
const (
	MaxKeys       = 10_000 // of a store
	MaxTenantKeys = 200    // that one who is no admin of all namespaces may have made and revoke
	MaxGrants     = 16     // of a key
	MaxGrantNames = 64     // namespaces and queues, in all grants of a key
	MaxGrantBytes = 4 << 10
	MaxKeyNote    = 256 // bytes

	// DefaultKeyOverlap is for how long two secrets are valid where nothing is said, and MaxKeyOverlap the most.
	DefaultKeyOverlap = 24 * time.Hour
	MaxKeyOverlap     = 30 * 24 * time.Hour
)

// Validate returns an error about the first wrong field; now is the time after which it must expire.
func (k *NewKey) Validate(now time.Time) error {
	switch {
	case len(k.Grants) == 0:
		return invalid("grants", "a key without grants may do nothing; give one at least")
	case len(k.Grants) > MaxGrants:
		return invalid("grants", "%d grants are more than %d", len(k.Grants), MaxGrants)
	}
	names, size := 0, 0
	for i := range k.Grants {
		g := &k.Grants[i]
		if err := g.validate(); err != nil {
			return renamedWithin(fmt.Sprintf("grants[%d]", i), err)
		}
		names += len(g.Namespaces) + len(g.Queues)
		size += len(strings.Join(g.Namespaces, "")) + len(strings.Join(g.Queues, ""))
	}
	if names > MaxGrantNames {
		return invalid("grants", "%d namespaces and queues are more than %d", names, MaxGrantNames)
	}
	if size > MaxGrantBytes {
		return invalid("grants", "the names of their namespaces and queues have %d bytes, more than %d", size, MaxGrantBytes)
	}
	if err := checkPrintable("note", k.Note, MaxKeyNote); err != nil {
		return err
	}
	if !k.Expires.IsZero() && (!k.Expires.After(now) || !Storable(k.Expires)) {
		return invalid("expire_time", "%s is not in the future", k.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

func (g *AccessGrant) validate() error {
	if !slices.Contains(Roles(), g.Role) {
		return invalid("role", "%q is none; use viewer, worker, producer, operator or admin", clip(string(g.Role)))
	}
	if len(g.Queues) > 0 && g.Role != RoleWorker {
		return invalid("queues", "only a grant of the role worker is limited to queues")
	}
	if len(g.Namespaces) == 0 {
		return invalid("namespaces", `it is missing; "*" is all of them`)
	}
	for i, pattern := range g.Namespaces {
		name, all := strings.CutSuffix(pattern, "*")
		if all && name == "" {
			continue
		}
		if err := ValidateNamespace(name); err != nil {
			return WithField(err, fmt.Sprintf("namespaces[%d]", i))
		}
	}
	for i, queue := range g.Queues {
		if err := (&WorkerTarget{Queue: queue}).Validate(); err != nil {
			return WithField(err, fmt.Sprintf("queues[%d]", i))
		}
	}
	return nil
}

// Validate returns an error about the first wrong field.
func (q *KeyQuery) Validate() error { return checkNumber("page_size", q.PageSize, 0, MaxBatch) }
