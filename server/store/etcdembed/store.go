package etcdembed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/etcd"
)

// Store is a store in etcd, of which one member is in this process.
type Store struct {
	*etcd.Store

	member *member
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Reader   = (*Store)(nil)
	_ store.Gatherer = (*Store)(nil)
	_ store.Counter  = (*Store)(nil)
	_ store.Roomer   = (*Store)(nil)
)

// waiting are the members that an Open has started and that were not ready when it returned. They run for
// keptFor, unless another Open of the folder takes them: the others cannot come to be a cluster unless most
// are there at the same time.
var waiting struct {
	sync.Mutex
	of map[string]*waitingMember
}

type waitingMember struct {
	*member
	over *time.Timer
}

// keptFor is longer than a node waits before it tries to open its store again.
const keptFor = 30 * time.Second

// readyWithin is how long an Open waits for other members. The caller tries again.
const readyWithin = 2 * time.Second

// Open starts the member, or takes the one that an Open before has started, and opens the store. An error is
// [store.ErrAway] while most of the members are not there.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Store.Log == nil {
		o.Store.Log = slog.New(slog.DiscardHandler)
	}
	m, err := take(ctx, &o)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, &o, m)
	switch {
	case err == nil:
		return &Store{s, m}, nil
	case errors.Is(err, store.ErrAway):
		leave(&o, m)
	default:
		m.close()
	}
	return nil, err
}

func open(ctx context.Context, o *Options, m *member) (*etcd.Store, error) {
	wait, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := m.ready(wait); err != nil {
		return nil, err
	}
	return etcd.Open(ctx, o.Store)
}

// take returns the member of a folder that waits, or starts it.
func take(ctx context.Context, o *Options) (*member, error) {
	waiting.Lock()
	w := waiting.of[o.Folder]
	delete(waiting.of, o.Folder)
	waiting.Unlock()
	if w != nil && w.over.Stop() {
		return w.member, nil
	}
	return start(ctx, o)
}

// leave lets a member wait for others.
func leave(o *Options, m *member) {
	waiting.Lock()
	defer waiting.Unlock()
	if waiting.of == nil {
		waiting.of = map[string]*waitingMember{}
	}
	waiting.of[o.Folder] = &waitingMember{m, time.AfterFunc(keptFor, func() {
		waiting.Lock()
		if w := waiting.of[o.Folder]; w != nil && w.member == m {
			delete(waiting.of, o.Folder)
		}
		waiting.Unlock()
		m.close()
	})}
}

// Close closes the store and ends the member.
func (s *Store) Close() error {
	err := s.Store.Close()
	s.member.close()
	return err
}
