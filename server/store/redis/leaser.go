package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/store"
)

// leaser is the store as a Leaser. Its clock is that of the server that has the key: a lease is judged by its
// partition's. The clocks of a cluster's servers are to be kept close to each other.
type leaser struct{ *Store }

var _ store.Leaser = leaser{}

// memberKeys is the key of the members, and that of what the store was created with.
func (l leaser) memberKeys() []string {
	return []string{storeKey(l.opt.Prefix, "members"), storeKey(l.opt.Prefix, "meta")}
}

// Now is the clock of a server; of a cluster, of any of them.
func (l leaser) Now(ctx context.Context) (time.Time, error) {
	t, err := ask(ctx, l.Store, func(ctx context.Context) ([]int64, error) {
		return l.client.Do(ctx, l.client.B().Time().Build()).AsIntSlice()
	})
	if err != nil {
		return time.Time{}, err
	}
	if len(t) != 2 {
		return time.Time{}, errors.New("store: redis: TIME did not answer with two numbers")
	}
	return time.Unix(t[0], t[1]*int64(time.Microsecond)), nil
}

// micros is a duration in µs, as text.
func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// memberText is what is kept of a member beside its id and its nonce.
type memberText struct {
	Address  string `json:"address"`
	HTTP     string `json:"http,omitempty"`
	Sidecars string `json:"sidecars,omitempty"`
	Capacity int    `json:"capacity"`
	Settings string `json:"settings,omitempty"`
	State    string `json:"state,omitempty"`
}

// Join writes or renews the member, unless another with its id lives.
func (l leaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.write(ctx, joinScript, m, ttl)
}

// Retire writes the member if another may own something.
func (l leaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.write(ctx, retireScript, m, ttl)
}

// What the scripts answer that write a member; anything else is that the store is not the one that was
// opened.
const (
	memberWritten = 1
	memberTaken   = 0
	memberLast    = -1
)

// write has a script write a member.
func (l leaser) write(ctx context.Context, script *rueidis.Lua, m store.Member, ttl time.Duration) error {
	text, err := json.Marshal(memberText{m.Address, m.HTTP, m.Sidecars, m.Capacity, m.Settings, m.State})
	if err != nil {
		return fmt.Errorf("store: redis: member: %w", err)
	}
	written, err := ask(ctx, l.Store, func(ctx context.Context) (int64, error) {
		return script.Exec(ctx, l.client, l.memberKeys(),
			[]string{m.ID, micros(ttl), strconv.FormatUint(m.Nonce, 10), string(text),
				strconv.Itoa(l.meta.Partitions), string(l.meta.MACKey)}).AsInt64()
	})
	switch {
	case err != nil:
		return err
	case written == memberTaken:
		err = store.ErrTaken
	case written == memberLast:
		err = store.ErrLast
	case written != memberWritten:
		l.health.Note(ErrReplaced)
		return ErrReplaced
	}
	l.health.Same()
	return err
}

// Leave removes the member of that nonce; 0 is any.
func (l leaser) Leave(ctx context.Context, id string, nonce uint64) error {
	_, err := ask(ctx, l.Store, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return leaveScript.Exec(ctx, l.client, l.memberKeys(),
			[]string{id, strconv.FormatUint(nonce, 10)}).ToMessage()
	})
	return err
}

// Members returns those that live, by id.
func (l leaser) Members(ctx context.Context) ([]store.Member, error) {
	list, err := ask(ctx, l.Store, func(ctx context.Context) ([]string, error) {
		return membersScript.Exec(ctx, l.client, l.memberKeys(), nil).AsStrSlice()
	})
	if err != nil {
		return nil, err
	}
	var out []store.Member
	for i := 0; i+1 < len(list); i += 2 {
		m, err := aMember(list[i], list[i+1])
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b store.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// aMember reads a member: until when it lives, for how long, its nonce, and what else there is.
func aMember(id, value string) (store.Member, error) {
	var m memberText
	words := strings.SplitN(value, " ", 4)
	if len(words) != 4 {
		return store.Member{}, fmt.Errorf("%w: the member %q", store.ErrDamaged, id)
	}
	n, err := strconv.ParseUint(words[2], 10, 64)
	if err := errors.Join(err, json.Unmarshal([]byte(words[3]), &m)); err != nil {
		return store.Member{}, fmt.Errorf("%w: the member %q: %w", store.ErrDamaged, id, err)
	}
	return store.Member{ID: id, Address: m.Address, HTTP: m.HTTP, Sidecars: m.Sidecars,
		Capacity: m.Capacity, Nonce: n, Settings: m.Settings, State: m.State}, nil
}

// Claim takes each partition that is free, expired or the node's own.
func (l leaser) Claim(ctx context.Context, node string, partitions []int,
	ttl time.Duration) ([]store.Term, error) {
	if err := l.same(ctx); err != nil {
		return nil, err
	}
	terms := make([]store.Term, len(partitions))
	epochs, err := l.onOwners(ctx, claimScript, partitions, func(i int) []string {
		terms[i].Nonce = rand.Uint64() // a second try takes what the first may have taken, under a term of its own
		return []string{node, strconv.FormatUint(terms[i].Nonce, 10), micros(ttl)}
	})
	if err != nil {
		return nil, err
	}
	for i, text := range epochs {
		if text == "" {
			terms[i] = store.Term{}
			continue
		}
		if terms[i].Epoch, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: the epoch %q of partition %d", store.ErrDamaged, text, partitions[i])
		}
	}
	return terms, nil
}

// holder is a term as the scripts take it.
func holder(node string, h store.Holding) []string {
	return []string{node, strconv.FormatUint(h.Term.Epoch, 10), strconv.FormatUint(h.Term.Nonce, 10)}
}

// Renew extends the leases and returns those that are lost.
func (l leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	renewed, err := l.onOwners(ctx, renewScript, numbers(held), func(i int) []string {
		return append(holder(node, held[i]), micros(ttl))
	})
	if err != nil {
		return nil, err
	}
	var lost []store.Holding
	for i, ok := range renewed {
		if ok != "1" {
			lost = append(lost, held[i])
		}
	}
	return lost, nil
}

// Release frees the partitions that are still held.
func (l leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	_, err := l.onOwners(ctx, releaseScript, numbers(held),
		func(i int) []string { return holder(node, held[i]) })
	return err
}

func numbers(held []store.Holding) []int {
	out := make([]int, len(held))
	for i, h := range held {
		out[i] = h.Partition
	}
	return out
}

// Owners returns every partition that was ever claimed, by number.
func (l leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	parts := l.meta.Partitions
	found := make([]store.Owner, parts)
	err := each(parts, func(p int) (err error) {
		found[p], err = ask(ctx, l.Store, func(ctx context.Context) (store.Owner, error) {
			fields, err := l.client.Do(ctx, l.client.B().Hmget().Key(l.keys[p][keyOwner]).
				Field("epoch", "nonce", "node", "until").Build()).AsStrSlice()
			if err != nil {
				return store.Owner{}, err
			}
			return owner(p, fields)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(o store.Owner) bool { return o.Term.IsZero() }), nil
}

// owner reads who holds a partition: epoch, nonce, node and until; without an epoch it was never claimed.
func owner(partition int, fields []string) (store.Owner, error) {
	o := store.Owner{Partition: partition}
	if len(fields) != 4 || fields[0] == "" {
		return o, nil
	}
	epoch, err1 := strconv.ParseUint(fields[0], 10, 64)
	nonce, err2 := strconv.ParseUint(fields[1], 10, 64)
	until, err3 := strconv.ParseInt(fields[3], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return o, fmt.Errorf("%w: the owner of partition %d: %w", store.ErrDamaged, partition, err)
	}
	o.Term, o.Node = store.Term{Epoch: epoch, Nonce: nonce}, fields[2]
	if o.Node != "" {
		o.Until = time.UnixMicro(until)
	}
	return o, nil
}
