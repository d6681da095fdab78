package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// A list of runs has sections, read one after the other, each from an index of its own:
//
//	section       in the order of        from the index   has
//	comingByTime  when they are due      of due times     next runs of jobs with none unfinished
//	comingByName  names                  of phases        next runs of the others
//	unfinished    names and sequences    of phases        what is not over
//	finished      their ends, backwards  of the history   what is over
//
// The first two are there only if the status scheduled is asked for. Of one job, comingByTime is empty,
// unfinished is its own run and its pending ones, and finished is its history, newest scheduled first. All
// are merged over partitions; what no index has is filtered while reading. A page examines a bounded number
// of runs, and its token is the place of the last one examined. The list reads the store alone, so that every
// node has all of it.
type runList struct {
	partitions *partitions
	q          *carillon.RunQuery
	filter     runFilter
	specs      specFacts
	page       []carillon.Run
	examined   int
	bytes      int // of the page, and of the specs that were read for it
}

// The sections of a list of runs.
const (
	comingByTime = iota
	comingByName
	unfinished
	finished
	noSection
)

// mostExamined bounds how many runs are examined for one page, or jobs; mostWithSpecs does it if the specs of
// unfinished runs must be looked at, which may have to be read for it.
const (
	mostExamined  = 1000
	mostWithSpecs = 400
)

// runPlace is a place in a list of runs: that of the last run examined, of which each section uses some
// fields; or the beginning of a section, if there is only that.
type runPlace struct {
	Section   int                `json:"s"`
	At        int64              `json:"t,omitempty"` // when it is due, or when it finished
	Ref       *store.Ref         `json:"r,omitempty"`
	Partition int                `json:"p,omitempty"`
	Status    carillon.RunStatus `json:"u,omitempty"`
	Cursor    []byte             `json:"c,omitempty"` // in the history
}

// ListRuns returns a page of runs; see [carillon.Runs].
func (rs *runs) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	if err := q.Validate(); err != nil {
		return carillon.RunPage{}, err
	}
	q.Namespace, q.PageSize = namespaceOf(q.Namespace), cmp.Or(q.PageSize, defaultPage)
	pages := runPages(rs.partitions.macKey, &q)
	token, err := pages.Place(q.PageToken)
	if err != nil {
		return carillon.RunPage{}, err
	}
	var at runPlace
	if token != nil {
		if err := json.Unmarshal(token, &at); err != nil {
			return carillon.RunPage{}, fmt.Errorf("a page token of this store: %w", err)
		}
	}
	l := runList{partitions: rs.partitions, q: &q, filter: newRunFilter(&q)}
	more, err := l.read(ctx, &at)
	page := carillon.RunPage{Runs: l.page}
	if err != nil || !more {
		return page, err
	}
	if token, err = json.Marshal(at); err != nil {
		return page, err
	}
	page.NextPageToken = pages.At(token)
	return page, nil
}

// read reads the sections from a place on until the page is full, and moves the place. more reports whether
// anything is left.
func (l *runList) read(ctx context.Context, at *runPlace) (more bool, err error) {
	for ; at.Section < noSection && !more && err == nil; more, err = l.section(ctx, at) {
	}
	return more, err
}

// section reads one section; at its end, the place is the beginning of the next one.
func (l *runList) section(ctx context.Context, at *runPlace) (more bool, err error) {
	switch at.Section {
	case comingByTime:
		more, err = readRuns(ctx, l, l.byTime(*at), at)
	case comingByName:
		more, err = readRuns(ctx, l, l.byName(*at), at)
	case unfinished:
		more, err = readRuns(ctx, l, l.unfinished(*at), at)
	case finished:
		more, err = readRuns(ctx, l, l.finished(*at), at)
	}
	if !more {
		*at = runPlace{Section: at.Section + 1}
	}
	return more, err
}

// runSection is how a section is read.
type runSection[T any] struct {
	merge[T]
	// show returns the next item of a source as a run; ok is false if it is none that is asked for.
	show  func(ctx context.Context, s *source[T]) (r carillon.Run, ok bool, err error)
	place func(item *T) runPlace
}

// readRuns reads a section until the page is full or the section ends. more reports whether the section has
// more.
func readRuns[T any](ctx context.Context, l *runList, s *runSection[T], at *runPlace) (more bool, err error) {
	if s == nil || len(s.sources) == 0 {
		return false, nil
	}
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	for from := s.first(); from != nil; from = s.first() {
		if l.full() {
			return true, nil
		}
		run, ok, err := s.show(ctx, from)
		if err != nil {
			return false, err
		}
		if ok {
			l.page, l.bytes = append(l.page, run), l.bytes+sizeOfRun(&run)
		}
		l.examined++
		*at = s.place(&from.next[0])
		if err := s.pass(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}

// full reports whether the page ends. What it holds may exceed the bound by one run, which is small.
func (l *runList) full() bool {
	return len(l.page) >= l.q.PageSize || l.examined >= l.most() || l.bytes > pageBytes
}

// most is how many runs are examined for the page at most.
func (l *runList) most() int {
	if l.filter.needsSpecs() {
		return mostWithSpecs
	}
	return mostExamined
}

// sizeOfRun is about how many bytes a run has in a message.
func sizeOfRun(r *carillon.Run) int {
	const beside = 256
	n := beside + len(r.Job) + len(r.Queue) + len(r.Response)
	for i := range r.Errors {
		n += len(r.Errors[i].Message) + 16
	}
	return n
}

// asksFor reports whether runs of a status are asked for by its name.
func (l *runList) asksFor(s carillon.RunStatus) bool { return slices.Contains(l.q.Statuses, s) }

// key is the job whose runs are asked for.
func (l *runList) key() carillon.Key { return carillon.Key{Namespace: l.q.Namespace, Name: l.q.Job} }
