package etcdembed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/storeurl"
)

// member is an etcd member in this process.
type member struct {
	etcd    *embed.Etcd
	log     store.Logger
	end     context.CancelFunc
	helping sync.WaitGroup
}

const (
	// mostOps is how many operations a transaction may have: more than etcd's default, so that most batches
	// are one.
	mostOps = 1024
	// promoteEvery is how often the leader looks for learners that have caught up.
	promoteEvery = 2 * time.Second
	// askTimeout is how long another member may take to say who the members are.
	askTimeout = 2 * time.Second
)

// start starts the member. It is ready when most members are there.
func start(ctx context.Context, o *Options) (*member, error) {
	c, err := o.config(ctx)
	if err != nil {
		return nil, err
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("store: start the etcd member %q in %s: %w", o.Member, o.Folder, err)
	}
	life, end := context.WithCancel(context.Background())
	m := &member{etcd: e, log: o.Store.Log, end: end}
	m.helping.Go(func() { m.promote(life) })
	return m, nil
}

// close ends the member. One that leads hands that over.
func (m *member) close() {
	m.end()
	m.helping.Wait()
	select {
	case <-m.etcd.Server.ReadyNotify():
	default:
		// Close waits for what serves clients, which waits until the member is ready or ends.
		m.etcd.Server.HardStop()
	}
	m.etcd.Close()
}

// ready waits until the member is one of a cluster that has a leader. An error that may pass is
// [store.ErrAway].
func (m *member) ready(ctx context.Context) error {
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case <-m.etcd.Server.StopNotify():
		return errors.New("store: the etcd member has ended: was it removed from its cluster? One that was begins again " +
			"with an empty folder, after it was added")
	case err := <-m.etcd.Err():
		return fmt.Errorf("store: etcd member: %w", err)
	case <-ctx.Done():
		return store.Away(errors.New("store: the etcd member waits for the others: most of them must be there"))
	}
}

// promote makes learners that have caught up full members, if this member leads.
func (m *member) promote(ctx context.Context) {
	again := time.NewTicker(promoteEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		s := m.etcd.Server
		if s.Leader() != s.MemberID() {
			continue
		}
		for _, other := range s.Cluster().Members() {
			if !other.IsLearner {
				continue
			}
			if _, err := s.PromoteMember(ctx, uint64(other.ID)); err != nil {
				m.log.Debug("an etcd member is a learner still", "member", other.Name, "error", err)
				continue
			}
			m.log.Warn("a new etcd member has caught up and is a full member now", "member", other.Name)
		}
	}
}

// config is how the member is started.
func (o *Options) config(ctx context.Context) (*embed.Config, error) {
	self, _ := o.self()
	c := embed.NewConfig()
	c.Name, c.Dir = o.Member, o.Folder
	c.InitialClusterToken = clusterToken
	c.QuotaBackendBytes, c.MaxTxnOps = o.Store.Quota, mostOps
	c.MaxRequestBytes = 4 << 20
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(zapCore{log: o.Store.Log}))
	kind := o.scheme()
	if kind == "https" {
		info := transport.TLSInfo{CertFile: o.Files.Certificate, KeyFile: o.Files.Key,
			TrustedCAFile: o.Files.Authorities, ClientCertAuth: true}
		c.ClientTLSInfo, c.PeerTLSInfo = info, info
	}
	at := func(address string) []url.URL { return []url.URL{{Scheme: kind, Host: address}} }
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = at(self.peers()), at(self.clients())
	listen := o.listens()
	if net.ParseIP(listen.Host) == nil && !loopback(listen.Host) {
		listen.Host = "0.0.0.0" // etcd listens at no name
	}
	c.ListenPeerUrls, c.ListenClientUrls = at(listen.peers()), at(listen.clients())
	c.InitialCluster, c.ClusterState = o.initial(), embed.ClusterStateFlagNew
	if exists(o.Folder) {
		return c, nil // what is in the folder counts
	}
	joined, err := o.joins(ctx, c.AdvertisePeerUrls[0].String(), self.peers())
	if err != nil {
		return nil, err
	}
	if joined != "" {
		c.InitialCluster, c.ClusterState = joined, embed.ClusterStateFlagExisting
	}
	return c, nil
}

// clusterToken tells clusters of etcd apart that have the same members.
const clusterToken = "carillon"

// scheme is that of the URLs of members.
func (o *Options) scheme() string {
	if o.Files != (storeurl.Files{}) {
		return "https"
	}
	return "http"
}

// initial lists the members of a new cluster as etcd wants them.
func (o *Options) initial() string {
	all := make([]string, len(o.Peers))
	for i, p := range o.Peers {
		all[i] = fmt.Sprintf("%s=%s://%s", p.Name, o.scheme(), p.peers())
	}
	return strings.Join(all, ",")
}

// exists reports whether a folder has a member's data.
func exists(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "member"))
	return err == nil
}

// joins asks the other members whether there is a cluster already, and returns it as etcd wants it; empty if
// nobody answers, so that it is a new one.
func (o *Options) joins(ctx context.Context, self, address string) (string, error) {
	var alone *Peer // that has no majority, and knows this member as one that was started
	for _, p := range o.Peers {
		if p.Name == o.Member {
			continue
		}
		known, err := o.membersAt(ctx, p, false)
		if err != nil {
			continue // it is not there
		}
		agreed, err := o.membersAt(ctx, p, true)
		if err != nil { // it may be one of those that only come to be a cluster
			if i := memberAt(known, self); i >= 0 && len(known[i].ClientURLs) > 0 {
				alone = &p
			}
			continue
		}
		switch i := memberAt(agreed, self); {
		case i < 0:
			return "", fmt.Errorf("store: there is a cluster of etcd members, and %q at %s is none of them: carillon cluster member add %s=%s",
				o.Member, self, o.Member, address)
		case len(agreed[i].ClientURLs) > 0:
			return "", fmt.Errorf("%w. Replace it: carillon cluster member remove %s, then carillon cluster member add %s=%s",
				o.isLost(), o.Member, o.Member, address)
		default:
			agreed[i].Name = o.Member
			return listOf(agreed), nil
		}
	}
	if alone != nil {
		// With an empty member it would have a majority, without what only those had that are gone. etcd refuses
		// that as well, but does not say what is to be done.
		return "", fmt.Errorf("%w. %q answers, and most of the members do not: start the others, whose folders are there, and this one "+
			"after them. If most members are lost for good: carillon cluster snapshot --without-majority, then carillon cluster restore "+
			"on each machine", o.isLost(), alone.Name)
	}
	return "", nil
}

// isLost says that the folder of this member is not as it was.
func (o *Options) isLost() error {
	return fmt.Errorf("store: the etcd member %q was started before, and its folder %s is empty: what it had promised to the others is "+
		"lost, so it may not come back as the same", o.Member, o.Folder)
}

// memberAt is the place of the member at a URL for other members; -1: there is none.
func memberAt(all []*etcdserverpb.Member, url string) int {
	return slices.IndexFunc(all, func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, url) })
}

// listOf lists members as etcd wants them.
func listOf(members []*etcdserverpb.Member) string {
	var all []string
	for _, m := range members {
		for _, at := range m.PeerURLs {
			all = append(all, m.Name+"="+at)
		}
	}
	return strings.Join(all, ",")
}

// membersAt asks one member who the members are: as most of them agree, or as it knows by itself.
func (o *Options) membersAt(ctx context.Context, p Peer, agreed bool) ([]*etcdserverpb.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	at := "http://" + p.clients()
	if o.Store.TLS != nil {
		at = "https://" + p.clients()
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{at}, TLS: o.Store.TLS, Logger: zap.NewNop(),
		DialTimeout: askTimeout})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var how []clientv3.OpOption
	if !agreed {
		how = append(how, clientv3.WithSerializable())
	}
	answer, err := c.MemberList(ctx, how...)
	if err != nil {
		return nil, err
	}
	return answer.Members, nil
}
