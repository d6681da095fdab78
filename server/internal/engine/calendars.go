package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Calendars are metadata records (store.KindCalendar) whose key is namespace/name. The calendars of a
// namespace are in the partition that keeps its settings, and known to every node as those are
// (keptsettings.go).

// calendar is a calendar with its parsed dates.
type calendar struct {
	carillon.Calendar
	dates *schedule.Dates
	gone  bool // it was deleted, which is not durable yet
}

func newCalendar(c carillon.Calendar) (*calendar, error) {
	dates, err := c.Parse()
	return &calendar{Calendar: c, dates: dates}, err
}

// calendarFinder returns the dates of a calendar, nil if there is none.
type calendarFinder = func(namespace, name string) *schedule.Dates

// same reports whether two calendars are the same, generation and all.
func (c *calendar) same(o *calendar) bool {
	return c.Generation == o.Generation && c.TimeZone == o.TimeZone && c.Note == o.Note &&
		slices.Equal(c.Dates, o.Dates)
}

func calendarRecord(key carillon.Key, value []byte) store.MetaRecord {
	return store.MetaRecord{Kind: store.KindCalendar, Key: key.Namespace + "/" + key.Name, Value: value}
}

// decodeCalendars decodes calendars, by namespace and name.
func decodeCalendars(all []store.MetaRecord) (map[string]map[string]*calendar, error) {
	out := map[string]map[string]*calendar{}
	for _, r := range all {
		namespace, name, _ := strings.Cut(r.Key, "/")
		decoded, err := codec.DecodeCalendar(r.Value, carillon.Key{Namespace: namespace, Name: name})
		if err != nil {
			return nil, err
		}
		// It was valid when it was put. If its time zone was removed since, it has no dates, and jobs that
		// name it say that it is missing.
		c, _ := newCalendar(decoded)
		if out[namespace] == nil {
			out[namespace] = map[string]*calendar{}
		}
		out[namespace][name] = c
	}
	return out, nil
}

// calendar returns a calendar, nil if there is none.
func (s *settings) calendar(key carillon.Key) *calendar {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.calendars[key.Namespace][key.Name]
}

// calendarsOf returns the calendars of a namespace, in name order.
func (s *settings) calendarsOf(namespace string) []*calendar {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.calendars[namespace]),
		func(a, b *calendar) int { return strings.Compare(a.Name, b.Name) })
}

// dates returns the dates of a calendar, nil if there is none.
func (s *settings) dates(namespace, name string) *schedule.Dates {
	if c := s.calendar(carillon.Key{Namespace: namespace, Name: name}); c != nil {
		return c.dates
	}
	return nil
}

// setCalendar takes over a calendar, or its end.
func (s *settings) setCalendar(c *calendar) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.calendars[c.Namespace]
	switch {
	case c.gone:
		delete(of, c.Name)
	case of == nil:
		s.calendars[c.Namespace] = map[string]*calendar{c.Name: c}
	default:
		of[c.Name] = c
	}
}

// replaceCalendars takes over the calendars of the namespaces that own selects. The lock is held.
func (s *settings) replaceCalendars(own func(namespace string) bool, read map[string]map[string]*calendar) {
	for namespace := range s.calendars {
		if own(namespace) && read[namespace] == nil {
			delete(s.calendars, namespace)
		}
	}
	for namespace, of := range read {
		for name, c := range of {
			if was := s.calendars[namespace][name]; was != nil && was.same(c) {
				of[name] = was
			}
		}
		s.calendars[namespace] = of
	}
}

// checkCalendars refuses a job that names a calendar which does not exist. On a node that does not own the
// namespace's calendars they may be some seconds old, so they are read again before that.
func (j *jobs) checkCalendars(ctx context.Context, namespace string, rules carillon.CalendarRules) error {
	if len(rules.Except)+len(rules.Only) == 0 {
		return nil
	}
	err := j.knowsCalendars(namespace, rules)
	if p := j.partitions.ofNamespace(namespace); err != nil && j.partitions.remote(p) {
		if err := p.settings.followShared(ctx); err != nil {
			return readError(err)
		}
		err = j.knowsCalendars(namespace, rules)
	}
	return err
}

// knowsCalendars is checkCalendars for what this node knows at present.
func (j *jobs) knowsCalendars(namespace string, rules carillon.CalendarRules) error {
	return rules.CheckKnown(func(name string) bool { return j.settings.dates(namespace, name) != nil })
}

// checkPatchedCalendars is checkCalendars for what a patch names.
func (j *jobs) checkPatchedCalendars(ctx context.Context, namespace string, patch *carillon.Patch) error {
	var rules carillon.CalendarRules
	if slices.Contains(patch.Fields, "except") {
		rules.Except = patch.Job.Calendars.Except
	}
	if slices.Contains(patch.Fields, "only") {
		rules.Only = patch.Job.Calendars.Only
	}
	if err := rules.Validate(); err != nil {
		return err
	}
	return j.checkCalendars(ctx, namespace, rules)
}

// findMissingCalendars tells a caller which calendars of a job do not exist.
func (j *jobs) findMissingCalendars(job *carillon.Job) {
	for _, name := range job.Calendars.Names() {
		if j.settings.dates(job.Namespace, name) == nil && !slices.Contains(job.Status.MissingCalendars, name) {
			job.Status.MissingCalendars = append(job.Status.MissingCalendars, name)
		}
	}
}

// calendars implements [carillon.Calendars].
type calendars struct {
	partitions *partitions
	settings   *settings
}

// calendarKey fills in the default namespace and validates a key.
func calendarKey(namespace, name string) (carillon.Key, error) {
	c := carillon.Calendar{Namespace: namespaceOf(namespace), Name: name}
	return c.Key(), c.Validate()
}

// inForce returns the newest calendar, also if it is not durable yet; nil if there is none.
func (p *partitionRunner) calendarInForce(key carillon.Key) *calendar {
	c := p.settings.unsettledCalendars[key]
	if c == nil {
		c = p.settings.all.calendar(key)
	}
	if c == nil || c.gone {
		return nil
	}
	return c
}

// PutCalendar stores a calendar; see [carillon.Calendars].
func (cs *calendars) PutCalendar(ctx context.Context, c carillon.Calendar) (carillon.Calendar, error) {
	c.Namespace = namespaceOf(c.Namespace)
	if err := c.Validate(); err != nil {
		return carillon.Calendar{}, err
	}
	c.Dates = slices.Clone(c.Dates)
	return inRound(ctx, cs.partitions.ofNamespace(c.Namespace), changing(ctx, call{}),
		func(p *partitionRunner, _ int64) (carillon.Calendar, error) {
			var was *carillon.Calendar
			if old := p.calendarInForce(c.Key()); old != nil {
				was = &old.Calendar
			} else if n := p.countCalendars(c.Namespace); n >= carillon.MaxCalendars {
				return carillon.Calendar{}, carillon.Errorf(carillon.ResourceExhausted, "name",
					"namespace %q has %d calendars, of at most %d; delete one", c.Namespace, n, carillon.MaxCalendars)
			}
			put, err := c.Over(was)
			if err != nil {
				return carillon.Calendar{}, err
			}
			parsed, err := newCalendar(put)
			if err == nil {
				p.putCalendar(parsed)
			}
			put.Dates = slices.Clone(put.Dates)
			return put, err
		})
}

// countCalendars counts the calendars of a namespace, with those that are not durable yet.
func (p *partitionRunner) countCalendars(namespace string) int {
	n := len(p.settings.all.calendarsOf(namespace))
	for key, c := range p.settings.unsettledCalendars {
		if key.Namespace == namespace && !c.gone && p.settings.all.calendar(key) == nil {
			n++
		}
	}
	return n
}

// putCalendar writes a calendar, or its end. One that changes nothing is written as well: the caller's answer
// must wait for the calendar to be durable, and that of an earlier put may not be.
func (p *partitionRunner) putCalendar(c *calendar) {
	var value []byte
	if !c.gone {
		value = codec.EncodeCalendar(&c.Calendar)
	}
	p.m.Write(calendarRecord(c.Key(), value))
	settled := p.settings.putCalendar(c)
	p.replies.await(p.m.After(), func(failed error) { // in the order of the batches
		settled(failed)
		if failed == nil && p.e.cfg.Announce != nil {
			p.e.cfg.Announce(c.Namespace)
		}
	})
}

// putCalendar is put for a calendar, or its end.
func (k *keptSettings) putCalendar(c *calendar) (settled func(failed error)) {
	if k.unsettledCalendars == nil {
		k.unsettledCalendars = map[carillon.Key]*calendar{}
	}
	k.unsettledCalendars[c.Key()] = c
	return func(failed error) {
		if k.unsettledCalendars[c.Key()] == c {
			delete(k.unsettledCalendars, c.Key())
		}
		if failed == nil {
			k.taken.Add(1)
			k.all.setCalendar(c)
		}
	}
}

// GetCalendar returns a calendar; see [carillon.Calendars].
func (cs *calendars) GetCalendar(ctx context.Context, namespace, name string) (carillon.Calendar, error) {
	key, err := calendarKey(namespace, name)
	if err != nil {
		return carillon.Calendar{}, err
	}
	return inRound(ctx, cs.partitions.ofNamespace(key.Namespace), call{},
		func(*partitionRunner, int64) (carillon.Calendar, error) {
			c := cs.settings.calendar(key)
			if c == nil {
				return carillon.Calendar{}, noCalendar(key)
			}
			return c.shown(), nil
		})
}

// shown returns the calendar for a caller, who may change it.
func (c *calendar) shown() carillon.Calendar {
	out := c.Calendar
	out.Dates = slices.Clone(out.Dates)
	return out
}

func noCalendar(key carillon.Key) error {
	return carillon.Errorf(carillon.NotFound, "name", "there is no calendar %q in namespace %q", key.Name,
		key.Namespace)
}

// ListCalendars returns a page of calendars; see [carillon.Calendars].
func (cs *calendars) ListCalendars(ctx context.Context,
	q carillon.CalendarQuery) (carillon.CalendarPage, error) {
	if err := q.Validate(); err != nil {
		return carillon.CalendarPage{}, err
	}
	q.Namespace, q.PageSize = namespaceOf(q.Namespace), cmp.Or(q.PageSize, defaultPage)
	pages := calendarPages(cs.partitions.macKey, q.Namespace)
	after, err := pages.Place(q.PageToken)
	if err != nil {
		return carillon.CalendarPage{}, err
	}
	return inRound(ctx, cs.partitions.ofNamespace(q.Namespace), call{},
		func(*partitionRunner, int64) (page carillon.CalendarPage, _ error) {
			bytes := 0
			for _, c := range cs.settings.calendarsOf(q.Namespace) {
				if c.Name <= string(after) {
					continue
				}
				bytes += c.size()
				if n := len(page.Calendars); n > 0 && (n == q.PageSize || bytes > pageBytes) {
					page.NextPageToken = pages.At([]byte(page.Calendars[n-1].Name))
					break
				}
				page.Calendars = append(page.Calendars, c.shown())
			}
			return page, nil
		})
}

// size is about how many bytes the calendar has in a message.
func (c *calendar) size() int {
	const each = 16 // tags, lengths, a number
	size := len(c.Namespace) + len(c.Name) + len(c.Note) + 3*each
	for _, date := range c.Dates {
		size += len(date) + each
	}
	return size
}

// DeleteCalendar removes a calendar; see [carillon.Calendars].
func (cs *calendars) DeleteCalendar(ctx context.Context, namespace, name string,
	opts ...carillon.DeleteOption) error {
	key, err := calendarKey(namespace, name)
	if err != nil {
		return err
	}
	o := carillon.DeleteOptions{}.With(opts...)
	_, err = inRound(ctx, cs.partitions.ofNamespace(key.Namespace), changing(ctx, call{}),
		func(p *partitionRunner, _ int64) (struct{}, error) {
			c := p.calendarInForce(key)
			switch {
			case c == nil:
				return struct{}{}, noCalendar(key)
			case o.IfGeneration != 0 && o.IfGeneration != c.Generation:
				return struct{}{}, carillon.Errorf(carillon.FailedPrecondition, "if_generation",
					"calendar %q is at generation %d", key.Name, c.Generation)
			}
			p.putCalendar(&calendar{Calendar: carillon.Calendar{Namespace: key.Namespace, Name: key.Name}, gone: true})
			return struct{}{}, nil
		})
	return err
}
