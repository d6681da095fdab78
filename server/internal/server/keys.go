package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/pagetoken"
)

// keeper keeps the keyring of a node up to date, and implements [carillon.Access] for callers whose principal
// is in ctx. A node reads the keys when it starts, when another has told it of a change, and every keysEvery,
// in case it was not told.
type keeper struct {
	node *Node
	// read reads the keys, in the order of their ids, without those that are damaged.
	read func(context.Context) (all []access.Key, damaged []error, err error)
	ring access.Keyring

	reading sync.Mutex // held while keys are read: what is read later is newer
	damaged int        // keys in the last read; guarded by reading
	written time.Time  // when uses were last recorded; follow's

	first *access.Key // to be made if the store has none; nil: none, or it is decided; follow's

	end  context.CancelFunc
	done sync.WaitGroup
}

var _ carillon.Access = (*keeper)(nil)

const (
	// keysEvery is how often a node reads the keys, so that a revoked one is refused within a second. Where
	// leases last longer than dearLease, requests to the store cost money, and it is every keysDear.
	keysEvery = 500 * time.Millisecond
	keysDear  = 10 * time.Second
	dearLease = time.Minute
	// keysWithin is how long one read may take.
	keysWithin = 5 * time.Second
	// usesEvery is how often it is recorded that keys were used. Of each key that is once an hour.
	usesEvery = 10 * time.Second
	// usesAtOnce is how many are recorded in a write.
	usesAtOnce = 100
	// keysPage is the default length of a page of keys.
	keysPage = 100
)

// keepKeys begins to keep the keys, if callers are to show some.
func keepKeys(ctx context.Context, n *Node) error {
	if !n.config.takes(AuthKeys) {
		return nil
	}
	life, end := context.WithCancel(context.Background())
	k := &keeper{node: n, read: n.engine.AccessKeys, end: end}
	if err := k.reload(ctx); err != nil {
		end()
		return fmt.Errorf("API keys: %w", err)
	}
	switch file := n.config.BootstrapKeyFile; {
	case file != "" && k.has(): // it may be gone
		n.config.Log.Info("the store has API keys, so the file with a first one is ignored", "file", file)
	case file != "":
		first, err := firstKeyFrom(file, n.config.Now())
		if err != nil {
			end()
			return fmt.Errorf("bootstrap_key_file: %w", err)
		}
		k.first = &first
	case k.ring.Len() == 0:
		n.config.Log.Warn("there is no API key yet, so nobody may do anything: give one with --bootstrap-key-file, " +
			"or stop the nodes and make one with carillon key create --admin --store URL")
	}
	n.keeper = k
	n.engine.AlsoReload(k.reload)
	k.begin(life)
	return nil
}

// begin follows the keys until life ends.
func (k *keeper) begin(life context.Context) {
	k.done.Go(func() { k.follow(life) })
	k.done.Go(func() { k.endOverlaps(life) })
}

// refuseOpen is an error if the store has keys, and this node was started as if there were none: it would let
// everybody in. [None] as Config.Auth says that it is meant so. Dapr's face has nothing to do with keys.
// Damage to the store keeps no node from starting that most likely ran without keys before: it says so.
func refuseOpen(n *Node) error {
	if n.config.Auth != "" || n.config.Sidecars != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keysWithin)
	defer cancel()
	all, damaged, err := n.engine.AccessKeys(ctx)
	switch {
	case errors.Is(err, carillon.DataLoss):
		n.config.Log.Error("whether the store has API keys cannot be read, and callers need none: say auth, keys or none",
			"error", err)
		return nil
	case err != nil:
		return fmt.Errorf("auth: whether the store has API keys: %w", err)
	case len(all)+len(damaged) == 0:
		return nil
	}
	return errors.New("auth: the store has API keys, and this node would serve callers without one: " +
		"say keys, or none to let everybody in")
}

// close ends it; nil: there is none.
func (k *keeper) close() {
	if k != nil {
		k.end()
		k.done.Wait()
	}
}

// follow reads the keys until life ends.
func (k *keeper) follow(life context.Context) {
	every := keysEvery
	if k.node.config.LeaseTTL > dearLease {
		every = keysDear
	}
	t := time.NewTicker(every)
	defer t.Stop()
	failing := false
	k.makeFirst(life)
	for {
		select {
		case <-life.Done():
			return
		case <-t.C:
		}
		err := k.reload(life)
		if err != nil && !failing && life.Err() == nil {
			k.node.config.Log.Warn("API keys cannot be read: those that were revoked meanwhile still open the node", "error", err)
		}
		failing = err != nil
		if err == nil {
			k.makeFirst(life)
			k.recordUses(life)
		}
	}
}

// endOverlaps ends what has begun by secrets that are over, until life ends: by the node's clock, whether the
// store answers or not, and however long that takes.
func (k *keeper) endOverlaps(life context.Context) {
	t := time.NewTicker(keysEvery)
	defer t.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-t.C:
			k.ring.EndOverlaps(k.node.config.Now())
		}
	}
}

// reload reads the keys.
func (k *keeper) reload(ctx context.Context) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	all, damaged, err := k.read(ctx)
	if err != nil {
		return err
	}
	k.ring.Replace(all)
	if len(damaged) > k.damaged {
		k.node.config.Log.Error("API keys are damaged in the store, and open nothing: make new ones",
			"error", errors.Join(damaged...))
	}
	k.damaged = len(damaged)
	return nil
}

// recordUses records which keys were used here.
func (k *keeper) recordUses(ctx context.Context) {
	uses := k.ring.Unrecorded()
	uses = uses[:min(len(uses), usesAtOnce)] // the others come later
	if len(uses) == 0 || time.Since(k.written) < usesEvery {
		return
	}
	k.written = time.Now()
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	if _, err := k.node.engine.ChangeKey(ctx, message.ChangeKey{Uses: uses}); err != nil && ctx.Err() == nil {
		k.node.config.Log.Debug("the use of API keys was not recorded", "error", err)
	}
}

// tell has this node and the others follow a change.
func (k *keeper) tell(ctx context.Context) (unheard []string, err error) {
	if k.node.member == nil {
		return nil, k.reload(ctx)
	}
	return k.node.member.TellOfKeys(ctx)
}

// caller returns the principal of a call.
func caller(ctx context.Context) (*access.Principal, error) {
	p := access.From(ctx)
	if p == nil {
		return nil, carillon.Errorf(carillon.Unauthenticated, "", "keys are for callers who have shown who they are")
	}
	return p, nil
}

// CreateKey implements [carillon.Access].
func (k *keeper) CreateKey(ctx context.Context, n carillon.NewKey) (carillon.CreatedKey, error) {
	now := k.node.config.Now()
	p, err := caller(ctx)
	if err == nil {
		err = n.Validate(now)
	}
	if err != nil {
		return carillon.CreatedKey{}, err
	}
	if err := k.mayCreate(ctx, p, &n); err != nil {
		return carillon.CreatedKey{}, err
	}
	key, secret := access.New(n, p.String(), now)
	audit.From(ctx).Named(key.ID)
	if _, err := k.node.engine.ChangeKey(ctx, message.ChangeKey{Create: &key}); err != nil {
		return carillon.CreatedKey{}, err
	}
	if unheard, err := k.tell(ctx); err != nil || len(unheard) > 0 {
		k.node.config.Log.Info("not all nodes know a new API key yet; they follow within a second", "id", key.ID,
			"unheard", unheard, "error", err)
	}
	return carillon.CreatedKey{Key: key.AccessKey, Secret: secret}, nil
}

// mayCreate refuses a key that gives more than its creator has: what, and for how long. An old secret makes
// none. One who is no admin of everything has a share of the keys, so that he cannot take all of them.
func (k *keeper) mayCreate(ctx context.Context, p *access.Principal, n *carillon.NewKey) error {
	if !p.Administers(n.Grants) {
		return carillon.Errorf(carillon.PermissionDenied, "grants",
			"this needs the role admin on all namespaces of the grants")
	}
	if outlives(n.Expires, p) {
		return carillon.Errorf(carillon.PermissionDenied, "expire_time",
			"the credential that creates it ends at %s: it must expire then or earlier", p.Expires.Format(time.RFC3339))
	}
	all, _, err := k.read(ctx)
	if err == nil {
		err = p.ShowsNewest(all)
	}
	if err != nil || p.AdministersAll() {
		return err
	}
	has := 0
	for i := range all {
		if p.Administers(all[i].Grants) {
			has++
		}
	}
	if has >= carillon.MaxTenantKeys {
		return carillon.Errorf(carillon.ResourceExhausted, "grants",
			"there are %d keys of these namespaces, which is the most for who is no admin of all: revoke some", has)
	}
	return nil
}

// outlives reports whether what expires at a time, zero for never, is valid longer than a principal's
// credential.
func outlives(expires time.Time, p *access.Principal) bool {
	return !p.Expires.IsZero() && (expires.IsZero() || expires.After(p.Expires))
}

// ListKeys implements [carillon.Access].
func (k *keeper) ListKeys(ctx context.Context, q carillon.KeyQuery) (page carillon.KeyPage, err error) {
	p, err := caller(ctx)
	if err == nil {
		err = q.Validate()
	}
	if err != nil {
		return page, err
	}
	pages := pagetoken.List{Names: []string{"keys"}, MACKey: k.node.store.Meta().MACKey}
	after, err := pages.Place(q.PageToken)
	if err != nil {
		return page, err
	}
	all, _, err := k.read(ctx)
	if err != nil {
		return page, err
	}
	now := k.node.config.Now()
	for i := range all {
		if all[i].ID <= string(after) || !p.Administers(all[i].Grants) {
			continue
		}
		if n := len(page.Keys); n == cmp.Or(q.PageSize, keysPage) {
			page.NextPageToken = pages.At([]byte(page.Keys[n-1].ID))
			return page, nil
		}
		page.Keys = append(page.Keys, all[i].Shown(now))
	}
	return page, nil
}

// find reads a key that the caller may change; the caller is returned, too.
func (k *keeper) find(ctx context.Context, id string) (p *access.Principal, key *access.Key, err error) {
	if p, err = caller(ctx); err == nil {
		err = access.CheckID(id)
	}
	if err != nil {
		return nil, nil, err
	}
	all, _, err := k.read(ctx)
	if err == nil {
		err = p.ShowsNewest(all)
	}
	if err != nil {
		return nil, nil, err
	}
	i, found := access.FindID(all, id)
	if !found || !p.Administers(all[i].Grants) {
		return nil, nil, access.NoKey(id)
	}
	return p, &all[i], nil
}

// RotateKey implements [carillon.Access]. Who rotates a key has what it may do from then on: so he must be
// one who could make it.
func (k *keeper) RotateKey(ctx context.Context, id string,
	overlap time.Duration) (rotated carillon.CreatedKey, unheard []string, err error) {
	if overlap < 0 || overlap > carillon.MaxKeyOverlap {
		return rotated, nil, carillon.Errorf(carillon.InvalidArgument, "overlap", "%s is not from 0s to %s",
			overlap, carillon.MaxKeyOverlap)
	}
	p, key, err := k.find(ctx, id)
	now := k.node.config.Now()
	if err == nil {
		err = mayRotate(p, key, overlap, now)
	}
	if err != nil {
		return rotated, nil, err
	}
	next, secret := key.Rotate(p.String(), overlap, now)
	done, err := k.node.engine.ChangeKey(ctx, message.ChangeKey{Rotate: &next, Was: key.Hash})
	if err == nil && !done {
		err = access.NoKey(id)
	}
	if err != nil {
		return rotated, nil, err
	}
	unheard, err = k.tell(ctx)
	if err != nil { // the caller must have the secret nevertheless
		k.node.config.Log.Info("not all nodes know of a rotated API key yet; they follow within a second",
			"id", id, "error", err)
	}
	return carillon.CreatedKey{Key: next.Shown(now), Secret: secret}, unheard, nil
}

// mayRotate refuses a rotation that would give its caller more than he has, and one that is no use.
func mayRotate(p *access.Principal, key *access.Key, overlap time.Duration, now time.Time) error {
	at := func(t time.Time) string { return t.Format(time.RFC3339) }
	switch {
	case key.Expired(now):
		return carillon.Errorf(carillon.FailedPrecondition, "id", "the key has expired at %s: create another one",
			at(key.Expires))
	case outlives(key.Expires, p):
		return carillon.Errorf(carillon.PermissionDenied, "id",
			"the credential that rotates the key ends at %s: the key must expire then or earlier", at(p.Expires))
	case overlap > 0 && key.Overlaps(now):
		return carillon.Errorf(carillon.FailedPrecondition, "overlap",
			"two secrets of the key are valid until %s: rotate it then, or with an overlap of 0s, which ends both",
			at(key.OverlapEnds))
	}
	return nil
}

// RevokeKey implements [carillon.Access].
func (k *keeper) RevokeKey(ctx context.Context, id string) (unheard []string, err error) {
	if _, _, err := k.find(ctx, id); err != nil {
		return nil, err
	}
	done, err := k.node.engine.ChangeKey(ctx, message.ChangeKey{ID: id})
	if err != nil {
		return nil, err
	}
	unheard, err = k.tell(ctx) // also if it was gone: the call may be one that has come twice
	if !done {
		return nil, access.NoKey(id)
	}
	return unheard, err
}

// noKeys is the [carillon.Access] of a node that takes no keys.
type noKeys struct{}

var errNoKeys = carillon.Errorf(carillon.FailedPrecondition, "", "this node takes no API keys: run it with --auth keys")

// CreateKey implements [carillon.Access].
func (noKeys) CreateKey(context.Context, carillon.NewKey) (carillon.CreatedKey, error) {
	return carillon.CreatedKey{}, errNoKeys
}

// ListKeys implements [carillon.Access].
func (noKeys) ListKeys(context.Context, carillon.KeyQuery) (carillon.KeyPage, error) {
	return carillon.KeyPage{}, errNoKeys
}

// RotateKey implements [carillon.Access].
func (noKeys) RotateKey(context.Context, string, time.Duration) (carillon.CreatedKey, []string, error) {
	return carillon.CreatedKey{}, nil, errNoKeys
}

// RevokeKey implements [carillon.Access].
func (noKeys) RevokeKey(context.Context, string) ([]string, error) { return nil, errNoKeys }
