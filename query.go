package carillon

import (
	"slices"
	"strings"
)

// Validate returns an error about the first wrong field. A query that can never find anything is wrong. An
// empty namespace is the default one. The page token is checked by the node that made it.
func (q *JobQuery) Validate() error {
	if err := checkQueried(q.Namespace, q.PageSize); err != nil {
		return err
	}
	if err := checkCharacters("prefix", q.Prefix, MaxName); err != nil {
		return err
	}
	if q.Phase != nil {
		if err := phaseWords.check(uint8(*q.Phase)); err != nil {
			return err
		}
	}
	return q.checkLabel()
}

func (q *JobQuery) checkLabel() error {
	if q.Label == "" {
		return nil
	}
	key, value, _ := strings.Cut(q.Label, "=")
	if key == "" {
		return Errorf(InvalidArgument, "label", "%q has no key; write key or key=value", clip(q.Label))
	}
	return WithField(checkLabel(key, value), "label")
}

// Validate returns an error about the first wrong field. A query that can never find anything is wrong. An
// empty namespace is the default one. The page token is checked by the node that made it.
func (q *RunQuery) Validate() error {
	if err := checkQueried(q.Namespace, q.PageSize); err != nil {
		return err
	}
	if q.Job != "" {
		if err := WithField(checkJobName(q.Job, MaxName), "job"); err != nil {
			return err
		}
	}
	switch {
	case q.Status != nil && !slices.Contains(FinishedStatuses(), *q.Status):
		return Errorf(InvalidArgument, statusWords.field, "%q is not the status of a finished run, and only those are listed; use one of %s",
			*q.Status, joinWords(FinishedStatuses()))
	case q.Job == "" && (q.Status == nil || *q.Status != RunDead):
		return Errorf(InvalidArgument, statusWords.field,
			"runs across jobs can be listed with status dead only; name a job for the others")
	}
	return nil
}

// FinishedStatuses returns the statuses that a run in the history can have.
func FinishedStatuses() []RunStatus {
	return []RunStatus{RunSucceeded, RunFailed, RunDead, RunCancelled, RunSkipped}
}

// checkQueried checks the fields that all lists have.
func checkQueried(namespace string, pageSize int) error {
	if namespace != "" {
		if err := ValidateNamespace(namespace); err != nil {
			return err
		}
	}
	if pageSize < 0 || pageSize > MaxBatch {
		return Errorf(InvalidArgument, "page_size", "%d is not between 1 and %d", pageSize, MaxBatch)
	}
	return nil
}

// joinWords joins the words of values, for people.
func joinWords(values []RunStatus) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.String()
	}
	return strings.Join(list, ", ")
}
