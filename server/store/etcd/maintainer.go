package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon/server/store"
)

// maintainer does what needs an operator of etcd otherwise. etcd keeps every older value of a key until
// it is told to forget them (compaction), returns what its file has grown by only when it is told to
// (defragmentation), and takes no writes at all once the file has reached its quota, until an alarm is taken
// back. Every process watches the room; one of them, who holds a lease, acts:
//
//   - what is older than historyKept is compacted, in short room sooner;
//   - a member whose file is large and mostly empty is defragmented, one at a time, the leader last;
//   - an alarm about room is taken back when there is room again.
//
// Before etcd refuses everything the store refuses what makes it grow: new jobs, with [store.ErrFull]. What
// is there runs on, and can be deleted.
type maintainer struct {
	s     *Store
	nonce uint64
	end   context.CancelFunc
	ended chan struct{}
	full  atomic.Pointer[error]

	left    atomic.Int64 // bytes that may be written before it is full, as of the last look
	written atomic.Int64 // bytes since then
	records atomic.Int64 // in memory, as counted last

	points       []point          // revisions at some times, oldest first
	compacted    int64            // the last one that was compacted
	defragmented map[string]int64 // and that of the last defragmentation, by endpoint
	denied       bool             // etcd refuses the maintainer: an operator was told
}

// point is a revision of etcd and when it was seen.
type point struct {
	at       time.Time
	revision int64
}

// pace is how often maintenance is done, and how long values are kept that were replaced, usually and in
// short room.
type pace struct{ every, kept, short time.Duration }

// How often, and how far.
const (
	maintainEvery = 5 * time.Second
	// historyKept is how long values are kept that were replaced, as Kubernetes does: who loads a partition
	// reads one revision, and others may use the same etcd.
	historyKept = 5 * time.Minute
	shortKept   = 10 * time.Second
	// defragmentTimeout is how long a member may take.
	defragmentTimeout = 2 * time.Minute
)

// Parts of the quota, in percent.
const (
	fullAt       = 90 // so much in use: no new jobs
	allowedAt    = 95 // the file is smaller again: an alarm is taken back
	shortAt      = 70 // compact sooner
	defragmentAt = 50 // the file is so large, and at most half of it is in use
)

func newMaintainer(s *Store) *maintainer {
	life, end := context.WithCancel(context.Background())
	k := &maintainer{s: s, nonce: rand.Uint64(), end: end, ended: make(chan struct{}),
		defragmented: map[string]int64{}}
	k.left.Store(s.opt.Quota) // until the first look
	go k.run(life)
	return k
}

func (k *maintainer) close() {
	k.end()
	<-k.ended
}

// room returns why no jobs are to be put; nil: there is room.
func (k *maintainer) room() error {
	if e := k.full.Load(); e != nil {
		return *e
	}
	if k.left.Load() <= 0 {
		return fmt.Errorf("%w: etcd may be nearly full: how much is in use is asked for every %v", store.ErrFull, k.s.opt.pace.every)
	}
	if most := int64(k.s.opt.Records); k.records.Load() >= most {
		return fmt.Errorf("%w: this node keeps %d records of jobs and runs in memory, which is its bound (records=… in the URL of the store)",
			store.ErrFull, most)
	}
	return nil
}

// wrote notes that so many bytes were written, and by how many records that grew what is in memory.
func (k *maintainer) wrote(size, grown int) {
	k.records.Add(int64(grown))
	k.left.Add(-int64(size))
	k.written.Add(int64(size))
}

func (k *maintainer) run(ctx context.Context) {
	defer close(k.ended)
	again := time.NewTicker(k.s.opt.pace.every)
	defer again.Stop()
	for {
		k.count()
		if err := k.keep(ctx); err != nil && ctx.Err() == nil {
			k.s.opt.Log.Debug("etcd was not looked after; that is tried again", "error", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// count counts what is in memory, after what is not needed has gone.
func (k *maintainer) count() {
	n := 0
	for _, r := range k.s.replicas {
		r.rest()
		if p := r.since(0); p != nil {
			n += p.Len()
		}
	}
	k.records.Store(int64(n))
}

// member is a member of etcd as it says of itself.
type member struct {
	endpoint      string
	size, inUse   int64 // of its file
	quota         int64
	leads, refuse bool
}

// keep looks at all members, and acts if this process holds the lease.
func (k *maintainer) keep(ctx context.Context) error {
	members, err := k.look(ctx)
	k.judge(members)
	if len(members) == 0 {
		return err
	}
	if k.s.opt.NoMaintenance {
		return nil
	}
	leads, revision, lost := k.lead(ctx)
	if lost != nil || !leads {
		k.points = nil
		return lost
	}
	return errors.Join(k.compact(ctx, revision, members), k.defragment(ctx, members), k.allow(ctx, members))
}

// look asks all members that answer.
func (k *maintainer) look(ctx context.Context) ([]member, error) {
	var all []member
	var failed []error
	for _, endpoint := range k.s.opt.endpoints() {
		ctx, cancel := context.WithTimeout(ctx, dateTimeout)
		says, err := k.s.wire.client.Status(ctx, endpoint)
		cancel()
		if err != nil {
			failed = append(failed, err)
			continue
		}
		m := member{endpoint: endpoint, size: says.DbSize, inUse: says.DbSizeInUse, quota: says.DbSizeQuota,
			leads: says.Header.MemberId == says.Leader}
		if m.quota <= 0 {
			m.quota = k.s.opt.Quota
		}
		for _, text := range says.Errors {
			m.refuse = m.refuse || containsNoSpace(text)
		}
		all = append(all, m)
	}
	return all, errors.Join(failed...)
}

// judge says whether there is room.
func (k *maintainer) judge(members []member) {
	if len(members) > 0 {
		left := int64(math.MaxInt64)
		for _, m := range members {
			left = min(left, m.quota/100*fullAt-m.inUse)
		}
		// What was written lately may not be in what a member reports, and is counted besides.
		k.left.Store(left - k.written.Swap(0))
	}
	for _, m := range members {
		if m.inUse*100 > m.quota*fullAt {
			k.say(fmt.Errorf("%w: etcd: member %s has %d MiB in use of its quota of %d MiB: no new jobs are taken above %d %%",
				store.ErrFull, m.endpoint, m.inUse>>20, m.quota>>20, fullAt))
			return
		}
		if m.refuse {
			k.say(fmt.Errorf("%w: etcd: member %s has reached its quota of %d MiB and takes no writes (alarm NOSPACE)",
				store.ErrFull, m.endpoint, m.quota>>20))
			return
		}
	}
	if len(members) > 0 {
		k.say(nil)
	}
}

// say notes why there is no room, nil if there is.
func (k *maintainer) say(full error) {
	var is *error
	if full != nil {
		is = &full
	}
	switch was := k.full.Swap(is); {
	case was == nil && full != nil:
		k.s.opt.Log.Error("the store is nearly full: no new jobs are taken", "error", full)
	case was != nil && full == nil:
		k.s.opt.Log.Warn("the store has room again: new jobs are taken")
	}
}

// maintainerValue is which process does the maintenance.
type maintainerValue struct {
	Nonce uint64 `json:"nonce"`
	lease
}

// lead takes or renews the lease.
func (k *maintainer) lead(ctx context.Context) (leads bool, revision int64, err error) {
	key := k.s.keys.maintainer()
	found, err := k.s.wire.get(ctx, one(key))
	if err != nil {
		return false, 0, err
	}
	var v maintainerValue
	at := int64(0)
	if len(found.Kvs) > 0 {
		at = found.Kvs[0].ModRevision
		if err := decode(key, found.Kvs[0].Value, &v); err != nil {
			return false, 0, err
		}
	}
	now := k.s.clock.Time()
	if v.Nonce != k.nonce && v.lasts(now) {
		return false, found.Header.Revision, nil
	}
	mine := encode(maintainerValue{k.nonce, lasting(now, 3*k.s.opt.pace.every)})
	answer, err := k.s.wire.txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{unchanged(key, at), k.s.same()},
		Success: []*pb.RequestOp{put(key, mine)}})
	if is(err, rpctypes.ErrGRPCNoSpace) {
		return true, found.Header.Revision, nil // nobody can renew the lease before somebody makes room
	}
	if err != nil {
		return false, 0, err
	}
	return answer.Succeeded, answer.Header.Revision, nil
}

// compact has etcd forget values that were replaced some time ago.
func (k *maintainer) compact(ctx context.Context, revision int64, members []member) error {
	now, kept := time.Now(), k.s.opt.pace.kept
	for _, m := range members {
		if m.size*100 > m.quota*shortAt {
			kept = k.s.opt.pace.short
		}
	}
	k.points = append(k.points, point{now, revision})
	old := int64(0)
	for len(k.points) > 1 && now.Sub(k.points[0].at) >= kept {
		old, k.points = k.points[0].revision, k.points[1:]
	}
	if old <= k.compacted {
		return nil
	}
	ctx, cancel := k.s.wire.leading(ctx)
	defer cancel()
	_, err := k.s.wire.kv.Compact(ctx, &pb.CompactionRequest{Revision: old, Physical: true})
	if err != nil && is(&callError{err: err, sent: true}, rpctypes.ErrGRPCCompacted) {
		err = nil // somebody else does it, too
	}
	if err == nil {
		k.compacted = old
	}
	return k.allowed(err)
}

// defragment gives back the room of one member. One that refuses writes does not notice what is not in use
// any more, so it is defragmented after each compaction.
func (k *maintainer) defragment(ctx context.Context, members []member) error {
	var worst *member
	for i := range members {
		m := &members[i]
		empty := m.size*100 > m.quota*defragmentAt && m.inUse*2 < m.size
		stuck := m.refuse && k.defragmented[m.endpoint] < k.compacted
		if (empty || stuck) && (worst == nil || worst.leads) {
			worst = m
		}
	}
	if worst == nil {
		return nil
	}
	k.defragmented[worst.endpoint] = k.compacted
	ctx, cancel := context.WithTimeout(ctx, defragmentTimeout)
	defer cancel()
	k.s.opt.Log.Warn("a member of etcd is defragmented: it answers nothing meanwhile", "member", worst.endpoint,
		"MiB", worst.size>>20, "in_use_MiB", worst.inUse>>20)
	_, err := k.s.wire.client.Defragment(ctx, worst.endpoint)
	return k.allowed(err)
}

// allow takes back the alarm that made etcd refuse writes, if those that answer, most of them, have room
// again.
func (k *maintainer) allow(ctx context.Context, members []member) error {
	refuse := false
	for _, m := range members {
		refuse = refuse || m.refuse
		if m.size*100 > m.quota*allowedAt {
			return nil
		}
	}
	if !refuse || len(members)*2 <= len(k.s.opt.Addresses) {
		return nil
	}
	ctx, cancel := k.s.wire.leading(ctx)
	defer cancel()
	k.s.opt.Log.Warn("etcd has room again: its alarm is taken back")
	alarms, err := k.s.wire.client.AlarmList(ctx)
	if err != nil {
		return k.allowed(err)
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm == pb.AlarmType_NOSPACE {
			which := &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}
			if _, err := k.s.wire.client.AlarmDisarm(ctx, which); err != nil {
				return k.allowed(err)
			}
		}
	}
	return nil
}

// allowed tells an operator, once, if etcd refuses the maintainer: its user must have the role root.
func (k *maintainer) allowed(err error) error {
	if err != nil && !k.denied && deniedBy(err) {
		k.denied = true
		k.s.opt.Log.Warn("this user of etcd may not keep it in order: compaction and defragmentation are left to its operator",
			"error", err)
	}
	return err
}

// containsNoSpace reports whether what a member complains of is that it has no room.
func containsNoSpace(text string) bool { return strings.Contains(text, pb.AlarmType_NOSPACE.String()) }

// deniedBy reports whether etcd says that a user may not do something.
func deniedBy(err error) bool {
	code := status.Code(err)
	return code == codes.PermissionDenied || code == codes.Unauthenticated ||
		errors.Is(err, rpctypes.ErrPermissionDenied)
}
