package object

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// roots reads and changes the object root. What waits at the same time is done together:
//
//	read  ──┐
//	change ─┼─▶ round: decide on what is known ─▶ Replace, if it has not changed ─▶ answers all
//	change ─┘            ▲                                  │ else
//	                     └──────────── read it again ◀──────┘
//
// A round that changes nothing asks the bucket whether what is known is still so. So every answer is of a
// root that was in force after its question.
type roots struct {
	s      *Store
	rounds sync.WaitGroup

	mu      sync.Mutex
	waiting []*inquiry
	busy    bool

	recent recent

	// of the round
	known   *root // never changed; nil: not known
	version bucket.Version
}

// recent is the newest root that was read or written.
type recent struct {
	root *root
	at   int64 // when its request began, by Store.elapsed
}

// decision changes the root that it is given, and reports whether it has. It may be called again with another
// one. After an error the root is as it was.
type decision func(ctx context.Context, r *root) (changed bool, err error)

// inquiry is a caller that waits for a round.
type inquiry struct {
	decide decision // nil: it reads
	taken  func()   // called when the change is durable, before any other round; may be nil
	done   chan struct{}
	root   *root
	err    error
}

// mostTries is how often a round begins again because others have changed the root.
const mostTries = 20

// errContended says that others always came first.
var errContended = errors.New("store: bucket: others changed the object root, in every try")

// ErrReplaced says that there is another store, or none, where there was the one that was opened.
var ErrReplaced = errors.New("store: the bucket has another store, or none, in the place of the one that was opened: " +
	"start the node again, if that is as it should be")

// read returns the root as it is now.
func (r *roots) read(ctx context.Context) (*root, error) { return r.ask(ctx, &inquiry{}) }

// change changes the root. taken, if it is not nil, is called when that is durable, and before anything else
// is read or changed.
func (r *roots) change(ctx context.Context, decide decision, taken func()) (*root, error) {
	return r.ask(ctx, &inquiry{decide: decide, taken: taken})
}

// ask waits for the answer. What a caller has asked for may be done after it has gone.
func (r *roots) ask(ctx context.Context, q *inquiry) (*root, error) {
	q.done = make(chan struct{})
	r.mu.Lock()
	r.waiting = append(r.waiting, q)
	if !r.busy {
		r.busy = true
		r.rounds.Go(r.run)
	}
	r.mu.Unlock()
	select {
	case <-q.done:
		return q.root, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// since returns the newest root that was read or written, if that was begun no longer ago; nil otherwise.
func (r *roots) since(age time.Duration) *root {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent.root == nil || r.s.elapsed()-r.recent.at > int64(age) {
		return nil
	}
	return r.recent.root
}

// close waits for the round that is under way. There must be no caller any more.
func (r *roots) close() { r.rounds.Wait() }

// run does one round after the other while somebody waits.
func (r *roots) run() {
	for {
		r.mu.Lock()
		all := r.waiting
		r.waiting = nil
		r.busy = len(all) > 0
		r.mu.Unlock()
		if len(all) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), r.s.opt.Timeout)
		wrote, err := r.round(ctx, all)
		cancel()
		if err != nil || wrote {
			r.s.health.Note(err)
		}
		if errors.Is(err, ErrReplaced) {
			r.s.disown()
		}
		for _, q := range all {
			if err != nil {
				q.root, q.err = nil, err
			}
			close(q.done)
		}
	}
}

// round answers all of them, or fails, and reports whether it has written.
func (r *roots) round(ctx context.Context, all []*inquiry) (wrote bool, err error) {
	fresh := false
	for try := range mostTries {
		began := r.s.elapsed()
		if !fresh && r.outdated(began) {
			if err := r.fetch(ctx); err != nil {
				return false, err
			}
			fresh = true
		}
		next, changed := r.decide(ctx, all)
		switch {
		case changed:
			written, err := r.write(ctx, next, try)
			if err != nil {
				return false, err
			}
			if !written {
				fresh = true // it was read again
				continue
			}
		case !fresh:
			was := r.known
			if err := r.fetch(ctx); err != nil {
				return false, err
			}
			if fresh = true; r.known != was {
				continue
			}
		}
		r.mu.Lock()
		r.recent = recent{r.known, began}
		r.mu.Unlock()
		for _, q := range all {
			q.root = r.known
			if q.err == nil && q.taken != nil {
				q.taken()
			}
		}
		r.s.learn(r.known)
		return changed, nil
	}
	return false, errContended
}

// outdated reports whether others have most likely changed the root since it was known: to read it then costs
// a request, and to find out by a change that is refused costs two.
func (r *roots) outdated(now int64) bool {
	if r.known == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known.Members) > 1 && now-r.recent.at > int64(2*staleness)
}

// decide lets each of them change a copy of the root.
func (r *roots) decide(ctx context.Context, all []*inquiry) (next *root, changed bool) {
	next = r.known
	for _, q := range all {
		if q.err = nil; q.decide == nil {
			continue
		}
		draft := next.clone()
		var did bool
		if did, q.err = q.decide(ctx, draft); did && q.err == nil {
			next, changed = draft, true
		}
	}
	return next, changed
}

// fetch reads the root, if it has changed.
func (r *roots) fetch(ctx context.Context) error {
	o, err := r.s.get(ctx, rootName, r.version)
	switch {
	case errors.Is(err, bucket.ErrSame):
		return nil
	case errors.Is(err, bucket.ErrAbsent):
		return ErrReplaced
	case err != nil:
		return failure(err)
	}
	found, err := decodeRoot(o.Data)
	if err != nil {
		return err
	}
	if !bytes.Equal(found.Secret, r.s.meta.MACKey) {
		return ErrReplaced
	}
	r.s.health.Same()
	r.known, r.version = found, o.Version
	return nil
}

// write puts a root in the place of the one that is known. If that has changed, it reads what there is now,
// and reports false, unless that is the one: the answer of an earlier request was lost.
func (r *roots) write(ctx context.Context, next *root, try int) (bool, error) {
	next.forget()
	next.Write = rand.Uint64()
	for log := range next.Logs {
		if j := r.s.journals.of(log); j != nil && next.Logs[log].Seal == 0 {
			next.Logs[log] = logState{Next: j.settled.Load()}
		}
	}
	data, err := next.encode()
	if err != nil {
		return false, err
	}
	version, failed := r.s.bucket.Replace(ctx, r.s.name(rootName), data, r.version)
	if failed == nil {
		r.known, r.version = next, version
		return true, nil
	}
	was := r.version
	if err := r.fetch(ctx); err != nil {
		return false, errors.Join(failure(failed), err)
	}
	switch {
	case r.known.Write == next.Write:
		return true, nil
	case r.version != was || errors.Is(failed, bucket.ErrChanged):
		return false, nil // by others
	case errors.Is(failed, bucket.ErrRefused):
		return false, failure(failed)
	}
	// The bucket has too much to do, or the answer was lost: what was asked for may still come.
	select {
	case <-time.After(min(firstPause<<try, longestPause)):
		return false, nil
	case <-ctx.Done():
		return false, failure(failed)
	}
}
