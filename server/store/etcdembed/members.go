package etcdembed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// WithPeers returns a store's URL with the members that a flag lists, and the name of this one. With insecure
// they may be beyond this machine without TLS.
func WithPeers(store, peers, member string, insecure bool) (string, error) {
	switch {
	case !strings.HasPrefix(store, scheme+":"):
		return "", fmt.Errorf("peers are for a store of etcd in this process, --store %s:DIR", scheme)
	case strings.Contains(store, "peers="):
		return "", errors.New("peers are in the URL of the store already: give them once")
	case member == "" && !strings.Contains(store, "member="):
		return "", errors.New("with peers the node needs its name, which is one of theirs: --node-name")
	}
	if _, err := ParsePeers(peers); err != nil {
		return "", err
	}
	of := url.Values{"peers": {peers}}
	if !strings.Contains(store, "member=") {
		of.Set("member", member)
	}
	if insecure && !strings.Contains(store, "ssl") && !strings.Contains(store, "insecure=") {
		of.Set("insecure", "yes")
	}
	if strings.Contains(store, "?") {
		return store + "&" + of.Encode(), nil
	}
	return store + "?" + of.Encode(), nil
}

// Member is a member of the cluster of etcd, as the cluster says.
type Member struct {
	ID      uint64
	Name    string // empty: it was added and has not been started
	Peers   string // URL for other members
	Clients string // URL for nodes; empty: it has not been started
	Learner bool   // it catches up, and does not count yet
	Leads   bool
	Reached bool // it has answered

	revision int64 // what it has applied
}

// Admin asks the members of a cluster, and changes who they are. It must be closed.
type Admin struct {
	o Options
	c *clientv3.Client
}

const (
	// adminTimeout bounds a call of an Admin.
	adminTimeout = 20 * time.Second
	// agreeTimeout is how long most members may take to say together who they are: several elections.
	agreeTimeout = 10 * time.Second
)

// ErrNoMajority is that most members do not answer, or have no leader.
var ErrNoMajority = errors.New("most members of etcd do not answer")

// NewAdmin connects to the members that the options list.
func NewAdmin(o Options) (*Admin, error) {
	kind := "http://"
	if o.Store.TLS != nil {
		kind = "https://"
	}
	var endpoints []string
	for _, p := range o.Peers {
		endpoints = append(endpoints, kind+p.clients())
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: o.Store.TLS, Logger: zap.NewNop(),
		DialTimeout: askTimeout})
	if err != nil {
		return nil, fmt.Errorf("connect to the members of etcd: %w", err)
	}
	return &Admin{o, c}, nil
}

// Close ends the connections.
func (a *Admin) Close() error { return a.c.Close() }

// Members lists the members, by name. With [ErrNoMajority] the list is what one of them knows by itself.
func (a *Admin) Members(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	agreed, stop := context.WithTimeout(ctx, agreeTimeout)
	answer, err := a.c.MemberList(agreed)
	stop()
	var alone error
	if err != nil {
		if !unanswered(err) {
			return nil, fmt.Errorf("list the members of etcd: %w", err)
		}
		alone = fmt.Errorf("%w: %w", ErrNoMajority, err)
		if answer, err = a.c.MemberList(ctx, clientv3.WithSerializable()); err != nil {
			return nil, fmt.Errorf("list the members of etcd: none answers: %w", err)
		}
	}
	out := make([]Member, len(answer.Members))
	for i, m := range answer.Members {
		out[i] = Member{ID: m.ID, Name: m.Name, Peers: strings.Join(m.PeerURLs, ","),
			Clients: strings.Join(m.ClientURLs, ","), Learner: m.IsLearner}
		if len(m.ClientURLs) > 0 {
			asked, done := context.WithTimeout(ctx, askTimeout)
			says, err := a.c.Status(asked, m.ClientURLs[0])
			done()
			if out[i].Reached = err == nil; err == nil {
				out[i].Leads, out[i].revision = says.Leader == m.ID, says.Header.Revision
			}
		}
	}
	slices.SortFunc(out, func(x, y Member) int { return strings.Compare(x.Name+x.Peers, y.Name+y.Peers) })
	return out, alone
}

// unanswered reports whether a call failed since members do not answer, or have no leader.
func unanswered(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// Add adds a member that is to be started: first as a learner, which does not count; when it has caught up
// the leader makes it a full member.
func (a *Admin) Add(ctx context.Context, p Peer) (Member, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	kind := "http://"
	if a.o.Store.TLS != nil {
		kind = "https://"
	}
	for {
		answer, err := a.c.MemberAddAsLearner(ctx, []string{kind + p.peers()})
		switch {
		case err == nil:
			return Member{ID: answer.Member.ID, Peers: kind + p.peers(), Learner: true}, nil
		case !errors.Is(err, rpctypes.ErrUnhealthy):
			return Member{}, fmt.Errorf("add the member %q at %s: %w", p.Name, p.peers(), err)
		}
		// the members must have been connected to each other for some seconds, also after a removal
		again := time.NewTimer(time.Second)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return Member{}, fmt.Errorf("add the member %q at %s: members are not connected to each other: %w",
				p.Name, p.peers(), err)
		}
	}
}

// Remove removes the member of a name, of a URL for other members, or of an id in hexadecimal digits. What it
// has is of no use afterwards.
func (a *Admin) Remove(ctx context.Context, which string) (Member, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	answer, err := a.c.MemberList(ctx)
	if err != nil {
		return Member{}, fmt.Errorf("list the members of etcd: %w", err)
	}
	id, _ := strconv.ParseUint(which, 16, 64)
	var found []*etcdserverpb.Member
	for _, m := range answer.Members {
		if m.Name == which || m.ID == id || slices.Contains(m.PeerURLs, which) {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return Member{}, fmt.Errorf("%d of the %d members of etcd are %q: give a name, or the id or the URL that the list shows",
			len(found), len(answer.Members), which)
	}
	m := found[0]
	if _, err := a.c.MemberRemove(ctx, m.ID); err != nil {
		return Member{}, fmt.Errorf("remove the member %q: %w", which, err)
	}
	return Member{ID: m.ID, Name: m.Name, Peers: strings.Join(m.PeerURLs, ",")}, nil
}

// Snapshot writes a copy of all that the cluster holds, as a member has it that answers, to a file that is
// not there yet. Without a majority it does not: what a member has by itself may be old.
func (a *Admin) Snapshot(ctx context.Context, file string) error {
	all, err := a.Members(ctx)
	if err != nil {
		return err
	}
	_, err = a.copyOf(ctx, all, file)
	return err
}

// SnapshotOfRest writes a copy of what those have that are left, though most members are lost: of the one
// that has most, which it returns. What it had not been told of is not in it.
func (a *Admin) SnapshotOfRest(ctx context.Context, file string) (Member, error) {
	all, err := a.Members(ctx)
	if err != nil && !errors.Is(err, ErrNoMajority) {
		return Member{}, err
	}
	return a.copyOf(ctx, all, file)
}

// copyOf writes what one of some members has, the one that has most, to a file that is not there yet.
func (a *Admin) copyOf(ctx context.Context, of []Member, file string) (Member, error) {
	if _, err := os.Stat(file); err == nil {
		return Member{}, fmt.Errorf("%s is there already", file)
	}
	there := slices.DeleteFunc(slices.Clone(of), func(m Member) bool { return !m.Reached || m.Learner })
	if len(there) == 0 {
		return Member{}, errors.New("no member of etcd answers")
	}
	m := slices.MaxFunc(there, func(x, y Member) int { return cmp.Compare(x.revision, y.revision) })
	c := clientv3.Config{Endpoints: []string{m.Clients}, TLS: a.o.Store.TLS, Logger: zap.NewNop(),
		DialTimeout: askTimeout}
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), c, file); err != nil {
		return m, fmt.Errorf("write a snapshot to %s: %w", file, err)
	}
	return m, nil
}
