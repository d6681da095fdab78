package carillon

import (
	"context"
	"slices"
	"strings"
)

// Bulk acts on all runs or jobs that a query selects, a page with each call: give back NextPageToken until it
// is empty. Each run and job is changed on its own, as the single call does it: a call that fails has changed
// some of them perhaps. What is gone or has changed meanwhile is left alone. So it is harmless to repeat all
// but JobTrigger.
type Bulk interface {
	BulkRuns(ctx context.Context, b BulkRuns) (BulkResult, error)
	BulkJobs(ctx context.Context, b BulkJobs) (BulkResult, error)
}

// BulkRuns is what to do to which runs.
type BulkRuns struct {
	// Query selects the runs. With RunCancel it selects unfinished ones alone, with RunRedrive dead ones alone;
	// naming another status is an error.
	Query  RunQuery
	Action RunAction
	All    bool // must be set if, and only if, the query selects all runs of the namespace
	DryRun bool // change nothing, and return what would be changed
}

// BulkJobs is what to do to which jobs.
type BulkJobs struct {
	Query   JobQuery
	Action  JobAction
	All     bool   // must be set if, and only if, the query selects all jobs of the namespace
	DryRun  bool   // change nothing, and return what would be changed
	Note    string // of JobPause and JobResume: kept with the jobs
	CatchUp bool   // of JobResume: see PauseOptions
}

// RunAction is what BulkRuns does to a run.
type RunAction uint8

// The actions on runs.
const (
	RunCancel  RunAction = iota + 1 // as CancelRun
	RunRedrive                      // as RedriveRun
)

// JobAction is what BulkJobs does to a job.
type JobAction uint8

// The actions on jobs.
const (
	JobTrigger JobAction = iota + 1 // as TriggerJob; to repeat it runs them again
	JobDelete                       // as DeleteJob; a job that is put meanwhile is left
	JobPause                        // as SetPaused
	JobResume                       // as SetPaused
)

// BulkResult is what one call of Bulk has done.
type BulkResult struct {
	Matched  int           // selected by the query
	Changed  int           // of these: changed; in a dry run: that would be
	Failed   int           // of these: that could not be changed, while they are as the query says
	Failures []BulkFailure // the first MaxBulkShown of them
	Names    []string      // of the first MaxBulkShown changed: run ids or names of jobs
	// NextPageToken is the page token of the next call; empty: that was all. A call may match fewer than its
	// page size, or none, and others follow all the same.
	NextPageToken string
}

// BulkFailure is why one run or job was not changed.
type BulkFailure struct {
	Name   string // a run's id or a job's name
	Reason string
}

// MaxBulkShown is how many failures and names a BulkResult has at most.
const MaxBulkShown = 10

// Validate returns an error about the first wrong field. The page token is checked by the node that made it.
func (b *BulkRuns) Validate() error {
	if err := runActionWords.check(uint8(b.Action)); err != nil {
		return err
	}
	if err := b.Query.Validate(); err != nil {
		return err
	}
	for _, s := range b.Query.Statuses {
		if !slices.Contains(b.Action.statuses(), s) {
			return invalid(statusWords.field, "%s cannot be done to a run that is %s; leave it out, or use %s", b.Action, s,
				wordList(b.Action.statuses()))
		}
	}
	q := b.Query
	all := q.Job == "" && q.Prefix == "" && q.Queue == "" && q.Kind == "" && q.Label == "" && q.Error == "" &&
		q.From.IsZero() && q.Until.IsZero() && (len(q.Statuses) == 0 || b.Action == RunRedrive)
	return checkAll(b.All, all, "runs")
}

// statuses returns which runs the action can be done to.
func (a RunAction) statuses() []RunStatus {
	if a == RunRedrive {
		return []RunStatus{RunDead}
	}
	return []RunStatus{RunStaged, RunRunning, RunRetrying}
}

func wordList(statuses []RunStatus) string {
	var list []string
	for _, s := range statuses {
		list = append(list, s.String())
	}
	return strings.Join(list, ", ")
}

// Validate returns an error about the first wrong field. The page token is checked by the node that made it.
func (b *BulkJobs) Validate(lim Bounds) error {
	if err := jobActionWords.check(uint8(b.Action)); err != nil {
		return err
	}
	if err := b.Query.Validate(); err != nil {
		return err
	}
	switch {
	case b.Note != "" && b.Action != JobPause && b.Action != JobResume:
		return invalid("note", "%s keeps none; leave it out", b.Action)
	case b.CatchUp && b.Action != JobResume:
		return invalid("catch_up", "it has an effect with resume only; leave it out")
	}
	lim = lim.withDefaults()
	if err := checkNote(b.Note, &lim); err != nil {
		return err
	}
	return checkAll(b.All, b.Query.Prefix == "" && b.Query.Label == "" && b.Query.Phase == nil, "jobs")
}

// checkAll makes a caller say so if everything is meant: a filter that was forgotten must do nothing.
func checkAll(said, all bool, what string) error {
	switch {
	case all && !said:
		return invalid("all", "no filter is given, so that would be all %s of the namespace; set it to mean that", what)
	case said && !all:
		return invalid("all", "a filter is given, so that is not all %s of the namespace; leave one of them out", what)
	}
	return nil
}
