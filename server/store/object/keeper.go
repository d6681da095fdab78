package object

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// keeper writes snapshots of what this process owns when their logs have grown, and deletes what nobody
// needs.
//
// What the root does not name any more is deleted a while later: a reader with an older root may be on the
// way to it. The seal of a log is kept much longer: its process may have been halted with a write on its way,
// which must not find the number free.
type keeper struct {
	s      *Store
	cancel context.CancelFunc
	work   sync.WaitGroup
	sooner chan struct{} // it is to look more often from now on

	garbage []garbage
	swept   int64 // when sweep was done last, by Store.elapsed; 0: never
	before  map[string]uint64
	// Snapshots that could not be written are tried again after a while, which grows.
	failures int
	rest     int   // looks until then
	told     int64 // when it was last said that something cannot be deleted, by Store.elapsed
}

// garbage is objects that the root did not name any more at some time.
type garbage struct {
	names []string
	since int64 // by Store.elapsed
}

// pace is when the keeper acts.
type pace struct {
	look     time.Duration // how often it looks
	bytes    int64         // behind a snapshot: as many, and as many as the snapshot has
	segments int           // or as many segments with batches of the partition
	behind   uint64        // or as many segments at all
	sweep    time.Duration // how often it lists all objects
	stale    time.Duration // how old an object is that is deleted because the root does not name it
	seals    time.Duration // how long seals are kept
}

var usualPace = pace{look: time.Second, bytes: 1 << 20, segments: 200, behind: 300, sweep: 12 * time.Hour,
	stale: time.Hour, seals: 10 * 24 * time.Hour}

// usualGrace is how long objects stay that nobody needs any more.
const usualGrace = 10 * time.Minute

func newKeeper(s *Store) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{s: s, cancel: cancel, sooner: make(chan struct{}, 1), before: map[string]uint64{}}
	k.work.Go(func() { k.run(ctx) })
	return k
}

func (k *keeper) close() {
	k.cancel()
	k.work.Wait()
}

func (k *keeper) run(ctx context.Context) {
	look := time.NewTicker(k.s.opt.pace.look)
	defer look.Stop()
	for n := 0; ; n++ {
		select {
		case <-look.C:
		case <-k.sooner:
			look.Reset(min(k.s.opt.pace.look, sparing))
		case <-ctx.Done():
			return
		}
		if k.rest > 0 {
			k.rest--
		} else {
			k.keepOrRest(ctx)
		}
		if n%restLooks == restLooks-1 {
			for _, r := range k.s.replicas {
				r.rest()
			}
		}
		if err := k.clean(ctx); err != nil && ctx.Err() == nil {
			k.complain(err)
		}
	}
}

// longestRest is after how many looks at most snapshots are tried again.
const longestRest = 64

// keepOrRest writes snapshots, and has the next ones wait if that failed.
func (k *keeper) keepOrRest(ctx context.Context) {
	err := errors.Join(k.keep(ctx), k.spare(ctx))
	if err == nil || ctx.Err() != nil {
		k.failures = 0
		return
	}
	k.rest = min(1<<k.failures, longestRest)
	k.failures = min(k.failures+1, 10)
	k.s.opt.Log.Warn("partitions were not written to the bucket as a whole: their logs grow until they are", "error", err)
}

// complaints is how often it is said at most that objects cannot be deleted.
const complaints = time.Hour

// complain says that something cannot be deleted.
func (k *keeper) complain(err error) {
	if now := k.s.elapsed(); k.told == 0 || now-k.told > int64(complaints) {
		k.told = now
		k.s.opt.Log.Warn("objects that nobody needs cannot be deleted now: they cost room until they are", "error", err)
	}
}

// restLooks is after how many looks a partition of another process that nobody reads is forgotten.
const restLooks = 60

// saved is a snapshot that was written and that the root does not name yet.
type saved struct {
	r     *replica
	h     *hold
	of    *version
	made  snapshot
	old   snapshot // that nobody needs any more
	named bool
}

// mostSaved is how many snapshots are named by one change of the root.
const mostSaved = 16

// keep writes snapshots of partitions for which it is time.
func (k *keeper) keep(ctx context.Context) error {
	known := k.s.known.Load()
	if known == nil {
		return nil
	}
	var due []*replica
	for _, r := range k.s.replicas {
		if len(due) < mostSaved && k.due(&known.Partitions[r.number], r.hold.Load(), r.is.Load()) {
			due = append(due, r)
		}
	}
	return k.save(ctx, due, nil)
}

// save writes snapshots of partitions, and has the root name them. after, if it is not nil, is called for
// each that is named, with its lock held.
func (k *keeper) save(ctx context.Context, due []*replica, after func(*replica)) error {
	defer func() {
		for _, r := range due {
			r.saving.Store(false)
		}
	}()
	var all []*saved
	var failed error // of one that the others do not wait for
	began := k.s.elapsed()
	for _, r := range due {
		h := r.hold.Load()
		v, err := r.toSave(ctx)
		if err != nil {
			return err
		}
		if h == nil || v == nil {
			continue
		}
		made, err := r.saveVersion(ctx, v)
		if err != nil {
			k.drop(r.number, &made)
			failed = err
			break
		}
		all = append(all, &saved{r: r, h: h, of: v, made: made})
	}
	if len(all) == 0 {
		return failed
	}
	_, err := k.s.roots.change(ctx, func(_ context.Context, root *root) (changed bool, err error) {
		// One that took too long may be taken for garbage.
		late := k.s.elapsed()-began > int64(k.s.opt.pace.stale/2)
		for _, s := range all {
			p := &root.Partitions[s.r.number]
			s.named = !late && p.inForce(s.h.term) && p.cut(s.of.at)
			switch {
			case p.Snapshot == s.made: // an earlier try came late
			case s.named:
				s.old, p.Snapshot = p.Snapshot, s.made
			default:
				s.old = s.made
			}
			changed = changed || s.named
		}
		return changed, nil
	}, nil)
	if err != nil {
		return err // perhaps the root names them: sweep finds out
	}
	for _, s := range all {
		k.drop(s.r.number, &s.old)
		if !s.named {
			continue
		}
		if err := s.r.turn.Take(ctx, s.r.s.closing); err != nil {
			return err
		}
		s.r.named(s.of, s.made)
		if after != nil {
			after(s.r)
		}
		s.r.turn.Give()
	}
	return failed
}

// due reports whether it is time for a snapshot of a version.
func (k *keeper) due(p *partition, h *hold, v *version) bool {
	if h == nil || v == nil || !h.fresh.Load() || v.segments == 0 || len(p.Spans) == 0 {
		return false
	}
	pace := k.s.opt.pace
	behind := uint64(0) // segments that who loads it has to read
	for _, s := range p.Spans {
		switch {
		case s.To != 0:
			behind += s.To - s.From
		case s.Log == h.in.id:
			behind += h.in.settled.Load() - s.From
		}
	}
	return v.since >= max(pace.bytes, v.snapshot.Size) || v.segments >= pace.segments || behind >= pace.behind
}

// drop notes that nobody needs a snapshot any more.
func (k *keeper) drop(partition int, s *snapshot) {
	var names []string
	for part := range s.Parts {
		names = append(names, s.name(partition, part))
	}
	k.garbage = append(k.garbage, garbage{names, k.s.elapsed()})
}

// clean deletes what has been of no use for long enough.
func (k *keeper) clean(ctx context.Context) error {
	if known := k.s.known.Load(); known != nil {
		k.dropSegments(known)
	}
	for len(k.garbage) > 0 && k.s.elapsed()-k.garbage[0].since > int64(k.s.opt.grace) {
		names := k.garbage[0].names
		for i, name := range names {
			if err := k.s.bucket.Delete(ctx, k.s.name(name)); err != nil {
				// It may be for this one alone: the others have their turn first.
				k.garbage[0].names = names[i+1:]
				k.garbage = append(k.garbage, garbage{[]string{name}, k.s.elapsed()})
				return fmt.Errorf("delete %s: %w", name, err)
			}
		}
		k.garbage = k.garbage[1:]
	}
	now := k.s.elapsed()
	if k.swept != 0 && now-k.swept < int64(k.s.opt.pace.sweep) || now < int64(k.s.opt.grace) {
		return nil
	}
	k.swept = now
	return k.sweep(ctx)
}

// dropSegments notes which segments of this process's journals nobody needs any more.
func (k *keeper) dropSegments(r *root) {
	needed := r.needed()
	for log, state := range r.Logs {
		if k.s.journals.of(log) == nil || state.Seal != 0 {
			continue
		}
		from := max(k.before[log], 1)
		to, ok := needed[log]
		if !ok {
			to = state.Next
		}
		var names []string
		for n := from; n < to; n++ {
			names = append(names, place{log, n}.name())
		}
		if len(names) > 0 {
			k.garbage = append(k.garbage, garbage{names, k.s.elapsed()})
			k.before[log] = to
		}
	}
	maps.DeleteFunc(k.before, func(log string, _ uint64) bool { _, ok := r.Logs[log]; return !ok })
}

// sweep lists all segments and snapshots, and deletes what is left of processes that were killed, and of logs
// that have ended. The process with the first of the owned partitions does it.
func (k *keeper) sweep(ctx context.Context) error {
	// The root is changed, if only by its number: what was decided before does not come late after that, to
	// name what it does not. What is decided later names nothing that is as old as half of this.
	before := k.s.clock.Time().Add(-k.s.opt.pace.stale)
	r, err := k.s.roots.change(ctx, func(context.Context, *root) (bool, error) { return true, nil }, nil)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(r.Partitions, func(p partition) bool { return p.open() != "" })
	if first < 0 || k.s.journals.of(r.Partitions[first].open()) == nil {
		return nil
	}
	needed := r.needed()
	if err := k.each(ctx, "logs/", before, func(e, next *bucket.Entry) bool {
		log, number, ok := parseSegment(e.Name)
		if !ok {
			return false
		}
		if state, known := r.Logs[log]; known && state.Seal == 0 {
			from, ok := needed[log]
			return ok && number < from && k.s.journals.of(log) == nil
		}
		// of a log that is sealed, or that the root does not know any more: its last object is the seal
		if next == nil || !strings.HasPrefix(next.Name, logPrefix(log)) {
			return k.s.clock.Time().Sub(e.Modified) > k.s.opt.pace.seals
		}
		from, ok := needed[log]
		return !ok || number < from
	}); err != nil {
		return err
	}
	return k.each(ctx, "snapshots/", before, func(e, _ *bucket.Entry) bool {
		parts := strings.Split(e.Name, "/") // snapshots/PPPPP/ID/N
		if len(parts) != 4 {
			return false
		}
		number, err := strconv.Atoi(parts[1])
		return err == nil && number < len(r.Partitions) && r.Partitions[number].Snapshot.ID != parts[2]
	})
}

// parseSegment reads the name of a segment.
func parseSegment(name string) (log string, number uint64, ok bool) {
	parts := strings.Split(name, "/") // logs/LOG/NUMBER
	if len(parts) != 3 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(parts[2], 10, 64)
	return parts[1], number, err == nil
}

// each deletes the objects with a prefix for which f says so, of those that were written before some time.
// next is the object behind one; nil: there is none.
func (k *keeper) each(ctx context.Context, prefix string, before time.Time,
	f func(e, next *bucket.Entry) bool) error {
	var last *bucket.Entry
	judge := func(next *bucket.Entry) error {
		if last == nil || !last.Modified.Before(before) || !f(last, next) {
			return nil
		}
		return k.s.bucket.Delete(ctx, k.s.name(last.Name))
	}
	for after := ""; ; {
		page, err := k.s.bucket.List(ctx, k.s.name(prefix), after, bucket.MostListed)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			after = e.Name
			e.Name = strings.TrimPrefix(e.Name, k.s.name(""))
			if err := judge(&e); err != nil {
				return err
			}
			last = &e
		}
		if !page.More {
			return judge(nil)
		}
	}
}

// gone is the error of an object that the root names and that is not there.
func gone(name string, err error) error {
	if errors.Is(err, bucket.ErrAbsent) {
		return fmt.Errorf("%w: %s", errGone, name)
	}
	return err
}
