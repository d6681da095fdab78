package daprrecord

import (
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/schedule"
)

// What a record says that a job of Carillon's has no field for is in its metadata too.
const (
	keptCount = "dapr.count"     // the runs before it came here, and the scheduled time of the last of them
	keptEnd   = "dapr.expires"   // the end of its life, if that is in its repeats
	keptTries = plan.AttemptsKey // the failed attempts of the run that it came with
)

// ToJob returns the job as Carillon keeps it from now on. Its due time is the one for which it is due next,
// possibly long past: it fires then, and goes on from there as its schedule has it. Its repeats are those
// that are left. What was asked for, and how far it was, is in its metadata. The error is [ErrOver] if the
// job never fires again.
func (r *Record) ToJob() (carillon.Job, error) {
	a, name, err := r.address()
	if err != nil {
		return carillon.Job{}, err
	}
	asked := r.asked()
	job, err := draft(a.Key(name), a.Target, asked)
	if err != nil {
		return job, err
	}
	s, err := job.ParseSchedule()
	if err != nil {
		return job, err
	}
	next, err := r.dueNext(s)
	if err != nil {
		return job, err
	}
	job.Due = carillon.At(next)
	keep(&job, writtenDue, job.Due.String(), asked.GetDueTime())
	if err := r.setEnd(&job, s, next); err != nil {
		return job, err
	}
	if asked.Repeats != nil || job.Repeats != 0 {
		keep(&job, writtenRepeats, strconv.FormatUint(job.Repeats, 10), repeatsText(asked.Repeats))
	}
	r.keepCounter(&job, next)
	return job, nil
}

func repeatsText(n *uint32) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(uint64(*n), 10)
}

// setEnd sets how often the job still fires, and until when. A life that has few times left becomes that
// number of repeats: Dapr's scheduler also fires those that are late, after the end of the job's life, and
// Carillon would not.
func (r *Record) setEnd(job *carillon.Job, s *schedule.Schedule, next time.Time) error {
	job.Repeats = r.left()
	end, err := r.expires()
	if err != nil || end.IsZero() || s == nil {
		return err
	}
	if n := 1 + uint64(s.Count(next, end, next, carillon.MaxCatchUp)); n <= carillon.MaxCatchUp {
		if job.Repeats == 0 || n < job.Repeats {
			job.Repeats = n
		}
		note(job, keptEnd, end.Format(time.RFC3339Nano))
	} else {
		job.TTL = carillon.At(end)
	}
	keep(job, writtenTTL, job.TTL.String(), r.Job.GetJob().GetTtl())
	return nil
}

// keepCounter notes how far the job is.
func (r *Record) keepCounter(job *carillon.Job, next time.Time) {
	c := r.Counter
	if c.GetCount() > 0 || c.GetLastTrigger() != nil {
		text := strconv.FormatUint(uint64(c.GetCount()), 10)
		if c.GetLastTrigger() != nil {
			text += " " + bounded(c.GetLastTrigger().AsTime()).Format(time.RFC3339Nano)
		}
		note(job, keptCount, text)
	}
	if c.GetAttempts() > 0 {
		note(job, keptTries, plan.Attempts(next, c.GetAttempts()))
	}
}

func note(job *carillon.Job, key, text string) {
	if job.Metadata == nil {
		job.Metadata = map[string]string{}
	}
	job.Metadata[key] = text
}

// counterOf returns what keepCounter noted. What somebody else has written there counts as nothing.
func counterOf(job *carillon.Job) (count uint32, last time.Time) {
	number, text, _ := strings.Cut(job.Metadata[keptCount], " ")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 0, last
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		last = t
	}
	return uint32(n), last
}
