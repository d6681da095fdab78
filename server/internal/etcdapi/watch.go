package etcdapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// watchServer follows changes. Carillon keeps no list of them, so watched keys are looked at every second,
// and what has become of each since is told: two changes of a key within that time are one.
type watchServer struct {
	pb.UnsafeWatchServer
	s *Service
}

// Watch implements the rpc.
func (w watchServer) Watch(stream pb.Watch_WatchServer) error {
	ctx := stream.Context()
	select {
	case w.s.streams <- struct{}{}:
		defer func() { <-w.s.streams }()
	default:
		return status.Errorf(codes.ResourceExhausted, "%d streams watch already, and no more can", w.s.options.Watchers)
	}
	requests, ended := make(chan *pb.WatchRequest), make(chan error, 1)
	go func() { // it ends with the stream
		for {
			m := new(pb.WatchRequest)
			if _, err := w.s.recv(stream, m); err != nil {
				ended <- err
				return
			}
			select {
			case requests <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	f := &follower{s: w.s, stream: stream, watches: map[int64]*watched{}}
	defer f.close()
	tick := time.NewTicker(w.s.options.WatchEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case m := <-requests:
			err = f.take(ctx, m)
		case <-tick.C:
			err = f.look(ctx)
		case err := <-ended:
			return unless(io.EOF, err)
		case <-w.s.left:
			return rpctypes.ErrGRPCStopped
		}
		if err != nil {
			return err
		}
	}
}

// maxWatches is how many watches a stream may have.
const maxWatches = 100

// maxWatched is how long the key of a watch may be, and its end: they are kept.
const maxWatched = 4 << 10

// follower is one stream. Only its goroutine uses it.
type follower struct {
	s       *Service
	stream  pb.Watch_WatchServer
	watches map[int64]*watched
	lastID  int64
}

// watched is what one watch has seen: a digest of each key's record.
type watched struct {
	span     span
	noPut    bool
	noDelete bool
	keys     map[string]uint64
}

// send sends what is not about many keys.
func (f *follower) send(m *pb.WatchResponse) error { return f.stream.Send(m) }

// take answers a request.
func (f *follower) take(ctx context.Context, m *pb.WatchRequest) error {
	switch of := m.GetRequestUnion().(type) {
	case *pb.WatchRequest_CreateRequest:
		return f.create(ctx, of.CreateRequest)
	case *pb.WatchRequest_CancelRequest:
		id := of.CancelRequest.GetWatchId()
		if f.watches[id] == nil {
			return nil
		}
		f.drop(id)
		return f.send(&pb.WatchResponse{Header: f.s.header(0), WatchId: id, Canceled: true})
	case *pb.WatchRequest_ProgressRequest:
		return f.send(&pb.WatchResponse{Header: f.s.header(0), WatchId: -1})
	}
	return unsupported("a request of a watch without one", "create or cancel a watch")
}

// create begins a watch. What it finds at first is not told: only what changes.
func (f *follower) create(ctx context.Context, m *pb.WatchCreateRequest) error {
	id := cmp.Or(m.GetWatchId(), f.nextID())
	now := f.s.clock.at(0)
	refuse := func(format string, args ...any) error {
		return f.send(&pb.WatchResponse{Header: f.s.header(0), WatchId: invalid, Created: true, Canceled: true,
			CancelReason: fmt.Sprintf(format, args...)})
	}
	switch {
	case f.watches[id] != nil:
		return refuse("there is a watch %d on this stream", id)
	case len(f.watches) == maxWatches:
		return refuse("there are %d watches on this stream, and no more can be", maxWatches)
	case max(len(m.GetKey()), len(m.GetRangeEnd())) > maxWatched:
		return refuse("key and range_end may have %d bytes each", maxWatched)
	case m.GetPrevKv():
		return refuse("values before a change are not kept here: watch without prev_kv")
	case m.GetStartRevision() > now:
		return refuse("the revision to begin with is in the future")
	}
	w := &watched{span: spanOf(m.GetKey(), m.GetRangeEnd()),
		noPut:    slices.Contains(m.GetFilters(), pb.WatchCreateRequest_NOPUT),
		noDelete: slices.Contains(m.GetFilters(), pb.WatchCreateRequest_NODELETE)}
	end, err := f.s.answers.begin(ctx)
	if err != nil {
		return err
	}
	_, err = f.changes(ctx, w)
	end()
	if err != nil {
		if errors.Is(err, errTooManyKeys) {
			return refuse("%v", err)
		}
		return err
	}
	f.watches[id] = w
	err = f.send(&pb.WatchResponse{Header: f.s.header(0), WatchId: id, Created: true})
	if err == nil && m.GetStartRevision() > 0 {
		err = f.cancel(id, "changes that have been are not kept here")
	}
	return err
}

// invalid is the number of a watch that has not begun.
const invalid = -1

func (f *follower) nextID() int64 {
	for f.lastID++; f.watches[f.lastID] != nil; f.lastID++ {
	}
	return f.lastID
}

// cancel ends a watch that cannot be told all changes from its beginning: it has to begin again.
func (f *follower) cancel(id int64, reason string) error {
	f.drop(id)
	h := f.s.header(0)
	return f.send(&pb.WatchResponse{Header: h, WatchId: id, Canceled: true, CancelReason: reason,
		CompactRevision: h.Revision})
}

// drop forgets a watch.
func (f *follower) drop(id int64) {
	f.s.watched.give(len(f.watches[id].keys))
	delete(f.watches, id)
}

// close ends all watches.
func (f *follower) close() {
	for _, w := range f.watches {
		f.s.watched.give(len(w.keys))
	}
}

// look tells what has changed since the last look. While the store cannot be read nothing is told, and
// nothing is lost by that.
func (f *follower) look(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(f.watches)) {
		if err := f.lookAt(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// lookAt tells what has changed of one watch.
func (f *follower) lookAt(ctx context.Context, id int64) error {
	end, err := f.s.answers.begin(ctx)
	if err != nil {
		return err
	}
	end = sync.OnceFunc(end)
	defer end()
	events, err := f.changes(ctx, f.watches[id])
	switch {
	case errors.Is(err, errTooManyKeys):
		end()
		return f.cancel(id, err.Error())
	case err != nil && ctx.Err() == nil:
		f.s.options.Logger.Warn("watched keys could not be read", "error", err)
		return nil
	case err == nil && len(events) > 0:
		return f.s.send(ctx, f.stream, &pb.WatchResponse{Header: f.s.header(0), WatchId: id, Events: events}, end)
	}
	return err
}

// seed makes digests that nobody outside can find two equal ones of.
var seed = maphash.MakeSeed()

// changes returns what has become of a watch's keys since the last time.
func (f *follower) changes(ctx context.Context, w *watched) (events []*mvccpb.Event, err error) {
	first, size := w.keys == nil, 0
	now := make(map[string]uint64, len(w.keys))
	err = f.s.each(ctx, w.span, true, func(item found) error {
		digest := maphash.Comparable(seed, [...]int64{item.ModRevision, item.Lease}) ^
			maphash.Bytes(seed, item.Value)
		key := string(item.Key)
		now[key] = digest
		if len(now) > len(w.keys)+f.s.watched.left() {
			return errTooManyKeys
		}
		if before, found := w.keys[key]; first || w.noPut || found && before == digest {
			return nil
		}
		if size += sizeOf(item.KeyValue); size > f.s.options.AnswerBytes {
			return errTooManyKeys
		}
		events = append(events, &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: item.KeyValue})
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.s.watched.give(len(w.keys) - len(now))
	gone := f.s.clock.at(0)
	for key := range w.keys {
		if _, found := now[key]; !found && !w.noDelete {
			events = append(events, &mvccpb.Event{Type: mvccpb.Event_DELETE,
				Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: gone}})
		}
	}
	w.keys = now
	slices.SortFunc(events, func(a, b *mvccpb.Event) int {
		return cmp.Or(cmp.Compare(a.Kv.ModRevision, b.Kv.ModRevision),
			bytes.Compare(a.Kv.Key, b.Kv.Key))
	})
	return events, nil
}

// errTooManyKeys ends a watch.
var errTooManyKeys = errors.New("the watches of this node have too many keys together: watch a longer prefix")

// keyBudget bounds how many keys the watches of a node have together.
type keyBudget struct {
	most int64
	used atomic.Int64
}

func (b *keyBudget) left() int { return int(b.most - b.used.Load()) }

// give gives back so many keys; fewer than none are taken.
func (b *keyBudget) give(n int) { b.used.Add(-int64(n)) }
