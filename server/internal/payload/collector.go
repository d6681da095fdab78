package payload

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// keptDays is how old an object is, at least, that may be removed. New references are made to objects of the
// current and of the previous day; the day that is left covers puts under way and clocks that differ.
const keptDays = 3

// settled is how long ago an object must have been written, whatever its day: the clock of who wrote it may
// have been wrong.
const settled = 24 * time.Hour

// examinedAtOnce is how many objects are held against all records at a time.
const examinedAtOnce = 50_000

// Collect removes the objects that nothing refers to and that are old enough. It reads all records once for
// each [examinedAtOnce] objects, twice if any of them seems to be unused, and removes nothing if a record
// cannot be read.
func (s *Store) Collect(ctx context.Context, records Records) (c carillon.PayloadCollection, err error) {
	if s == nil {
		return c, errNone()
	}
	if !s.collecting.TryLock() {
		return c, carillon.Errorf(carillon.FailedPrecondition, "", "this node collects payloads already")
	}
	defer s.collecting.Unlock()
	err = s.sweep(ctx, records, &c)
	outcome := Done
	if err != nil {
		outcome = Unavailable
		err = carillon.Errorf(carillon.Unavailable, "", "payloads were not collected to the end: %w", err)
	}
	if f := s.o.Count.Collected; f != nil {
		f(outcome, c.Removed)
	}
	return c, err
}

func (s *Store) sweep(ctx context.Context, records Records, c *carillon.PayloadCollection) error {
	now := s.o.Now()
	if err := s.own(ctx); err != nil {
		return err
	}
	if t, ok := s.objects.(interface{ Tidy(before time.Time) error }); ok {
		if err := t.Tidy(now.Add(-settled)); err != nil {
			return err
		}
	}
	for after, more := "", true; more; {
		var old map[string]int64
		var err error
		if old, after, more, err = s.old(ctx, now, after); err != nil {
			return err
		}
		c.Examined += uint64(len(old))
		for look := 0; look < looks && len(old) > 0; look++ {
			if err := s.look(ctx, records, old); err != nil {
				return err
			}
		}
		if err := s.absent(ctx, bucket.ErrAbsent); !errors.Is(err, bucket.ErrAbsent) {
			return err // the place belongs to another store by now, or is not there
		}
		if err := s.remove(ctx, old, c); err != nil {
			return err
		}
	}
	return nil
}

// looks is how often all records are read before an object is removed.
const looks = 2

// look takes what is referred to out of old.
func (s *Store) look(ctx context.Context, records Records, old map[string]int64) error {
	return look(ctx, records, func(name string) { delete(old, name) })
}

// errEnough ends a list.
var errEnough = errors.New("enough")

// old returns the sizes of objects after a name that may be removed if nothing refers to them, by their names
// without the prefix.
func (s *Store) old(ctx context.Context, now time.Time, after string) (found map[string]int64, last string,
	more bool, err error) {
	all := s.prefix + objectsFolder + "/"
	until := carillon.PayloadRef{}.On(now.AddDate(0, 0, -keptDays)).DayText()
	found, last = map[string]int64{}, after
	err = s.objects.Each(ctx, all, after, func(e bucket.Entry) error {
		name := strings.TrimPrefix(e.Name, all)
		day, _, _ := strings.Cut(name, "/")
		switch {
		case len(found) == examinedAtOnce:
			more = true
			return errEnough
		case !isDay(day): // it is none of ours
			return nil
		case day > until:
			return errEnough
		}
		if last = e.Name; now.Sub(e.Modified) >= settled {
			found[name] = e.Size
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, last, more, err
}

// isDay reports whether a text is a date.
func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

func (s *Store) remove(ctx context.Context, unused map[string]int64, c *carillon.PayloadCollection) error {
	for name, size := range unused {
		if err := s.removeOne(ctx, name); err != nil {
			return err
		}
		c.Removed++
		c.Bytes += uint64(size)
	}
	return nil
}

func (s *Store) removeOne(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return s.objects.Delete(ctx, s.prefix+objectsFolder+"/"+name)
}

// When a node that is in charge collects.
const (
	collectFirst = time.Hour // after it has been in charge for so long
	collectEvery = 24 * time.Hour
	collectAgain = time.Hour // after a failure
	chargeLook   = time.Minute
)

// Keep collects payloads once a day, while this node is in charge, until ctx ends.
func (s *Store) Keep(ctx context.Context, inCharge func() bool, records Records) {
	tick := time.NewTicker(chargeLook)
	defer tick.Stop()
	var next time.Time // zero: the node is not in charge
	for {
		now := time.Now()
		switch {
		case !inCharge():
			next = time.Time{}
		case next.IsZero():
			next = now.Add(collectFirst)
		case !now.Before(next):
			next = now.Add(s.keepOnce(ctx, records))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// keepOnce collects, and returns after how long to do so again.
func (s *Store) keepOnce(ctx context.Context, records Records) time.Duration {
	c, err := s.Collect(ctx, records)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.o.Log.Error("payloads were not collected: this is tried again in an hour", "removed", c.Removed, "error", err)
		return collectAgain
	default:
		s.o.Log.Info("payloads were collected", "examined", c.Examined, "removed", c.Removed, "bytes", c.Bytes)
	}
	return collectEvery
}
