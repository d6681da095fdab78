package daprrecord

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/schedule"
)

// FromJob returns the record with which Dapr's scheduler goes on where the job is now. The job has its
// status. The error says what Dapr has no word for, or is [ErrOver].
func FromJob(job *carillon.Job) (Record, error) {
	if err := expressible(job); err != nil {
		return Record{}, err
	}
	s, err := job.ParseSchedule()
	if err != nil {
		return Record{}, err
	}
	r, err := AsAsked(job)
	if err != nil {
		return r, err
	}
	next, attempts := nextOf(job)
	if next.IsZero() {
		return r, ErrOver
	}
	if err := r.setLife(job, s, next); err != nil {
		return r, err
	}
	r.setCounter(job, s, next, attempts)
	return r, nil
}

// AsAsked returns the record of a job as it was asked for, as if it had just been created: what may be shown
// of one that [FromJob] has no record of. It is of kind dapr, and has its status.
func AsAsked(job *carillon.Job) (Record, error) {
	spec, err := specOf(job)
	if err != nil {
		return Record{}, err
	}
	a := Address{job.Namespace, job.Target.Dapr, job.Target.Dapr.ActorType != ""}
	return Record{Name: a.InDapr(NameOf(job.Name)), Job: &cronpb.StoredJob{Job: spec,
		PartitionId: binary.BigEndian.Uint64(job.Status.UID[:]),
		Begin:       &cronpb.StoredJob_Start{Start: timestamppb.New(job.Status.Created)}}}, nil
}

// expressible returns an error about the first field that Dapr has no word for.
func expressible(job *carillon.Job) error {
	no := func(field, reason string) error {
		return carillon.Errorf(carillon.InvalidArgument, field, "Dapr has no word for it: %s", reason)
	}
	switch {
	case job.Target.Dapr == nil:
		return no("target", "it is of kind "+job.Target.Kind())
	case job.Status == nil:
		return errors.New("the job has no status")
	case job.Paused:
		return no("paused", "the job would fire")
	case job.TimeZone != "" && job.Recurring():
		return no("time_zone", "it stands before the schedule there")
	case len(job.Calendars.Except) > 0:
		return no("except", "runs would be at those times, too")
	case len(job.Calendars.Only) > 0:
		return no("only", "runs would be at other times")
	case job.Jitter != 0:
		return no("jitter", "runs would be at other times")
	case len(job.DependsOn) > 0:
		return no("depends_on", "runs would not wait")
	case job.Overlap != carillon.OverlapSerial:
		return no("overlap", "runs wait for the one before")
	case job.Recurring() && job.Misfire.Rule != carillon.MisfireAll:
		return no("misfire", "all missed runs are made up for")
	case policyToDapr(job) == nil:
		return no("failure_policy", "it is drop or constant there")
	case job.Recurring():
		text := asWritten(job, writtenSchedule, job.Schedule)
		if text == nil { // metadata that somebody else has written
			return no("metadata", writtenSchedule+" names no schedule")
		}
		if _, err := ScheduleText(*text); err != nil {
			return no("schedule", err.Error())
		}
	}
	return nil
}

// specOf returns the job as it was asked for.
func specOf(job *carillon.Job) (*cronpb.JobSpec, error) {
	whose, err := anypb.New(MetadataOf(job.Namespace, job.Target.Dapr))
	if err != nil {
		return nil, err
	}
	m := ToDapr(job)
	return &cronpb.JobSpec{Schedule: m.Schedule, DueTime: m.DueTime, Ttl: m.Ttl, Repeats: m.Repeats,
		Metadata: whose, Payload: m.GetData(), FailurePolicy: m.GetFailurePolicy()}, nil
}

// nextOf returns the scheduled time of the run that comes next, or goes on, and how many of its attempts have
// failed. An attempt in force is made again.
func nextOf(job *carillon.Job) (next time.Time, attempts uint32) {
	st := job.Status
	next = st.NextRun
	if c := st.Current; c != nil && c.Cause == carillon.CauseSchedule {
		next = c.Scheduled
		attempts = uint32(c.Attempt)
		if c.Status == carillon.RunRunning && attempts > 0 {
			attempts--
		}
	}
	return next, attempts + uint32(plan.AttemptsBefore(job, next))
}

// setLife sets the end of the job's life. If that is in its repeats, and missed times have carried its next
// run beyond it, the life lasts until the last of the runs that are left.
func (r *Record) setLife(job *carillon.Job, s *schedule.Schedule, next time.Time) error {
	if end, err := time.Parse(time.RFC3339Nano, job.Metadata[keptEnd]); err == nil && job.TTL.IsZero() {
		if end.Before(next) && s != nil {
			end = lastLeft(job, s, next)
		}
		r.Job.Expiration = timestamppb.New(end)
		return nil
	}
	_, end, err := job.Life(job.Status.Created)
	if err == nil && !end.IsZero() {
		r.Job.Expiration = timestamppb.New(end)
	}
	return err
}

// lastLeft returns the time of the last run that the job has left, of which the first is at next.
func lastLeft(job *carillon.Job, s *schedule.Schedule, next time.Time) time.Time {
	c := job.Status.Counters
	last := next
	for ended := 1 + c.Succeeded + c.Dropped + c.Dead + c.Cancelled; ended < job.Repeats; ended++ {
		t, ok := s.Next(last, next)
		if !ok {
			break
		}
		last = t
	}
	return last
}

// setCounter sets how far the job is, such that next is the time that comes next: after the last run if the
// schedule has it so, otherwise as the time at which the job begins.
func (r *Record) setCounter(job *carillon.Job, s *schedule.Schedule, next time.Time, attempts uint32) {
	c := job.Status.Counters
	before, last := counterOf(job)
	count := uint64(before) + c.Succeeded + c.Dropped + c.Dead + c.Cancelled
	if most := r.Job.Job.Repeats; most != nil {
		count = min(count, uint64(*most)-1) // it has a run to come
	}
	if s == nil {
		count = 0
	}
	follows := func(t time.Time) bool {
		if s == nil || t.IsZero() {
			return false
		}
		after, ok := s.Next(t, t)
		return ok && after.Equal(next)
	}
	if l := job.Status.LastRun; l != nil && l.Cause == carillon.CauseSchedule {
		last = l.Scheduled
	}
	if !follows(last) {
		last = time.Time{}
	}
	r.setBegin(job, next, follows, last)
	if count > 0 || attempts > 0 || !last.IsZero() {
		r.Counter = &cronpb.Counter{JobPartitionId: r.Job.PartitionId, Count: uint32(min(count, math.MaxUint32)),
			Attempts: attempts}
		if !last.IsZero() {
			r.Counter.LastTrigger = timestamppb.New(last)
		}
	}
}

// setBegin sets from when the schedule counts.
func (r *Record) setBegin(job *carillon.Job, next time.Time, follows func(time.Time) bool, last time.Time) {
	created := job.Status.Created
	if !last.IsZero() {
		next, _, _ = job.Life(created) // only shown: the last run says what comes next
	}
	if job.Due.IsZero() && (!last.IsZero() || follows(created)) {
		r.Job.Begin = &cronpb.StoredJob_Start{Start: timestamppb.New(created)}
		return
	}
	r.Job.Begin = &cronpb.StoredJob_DueTime{DueTime: timestamppb.New(next)}
}

// BeginAtNext makes the time that comes next the one at which the job begins, so that it is right without its
// counter, too: a scheduler that runs while its records are written may see the job first.
func (r *Record) BeginAtNext() error {
	next, err := r.Next()
	if err != nil {
		return err
	}
	r.Job.Begin = &cronpb.StoredJob_DueTime{DueTime: timestamppb.New(next)}
	if r.Counter != nil {
		r.Counter.LastTrigger = nil
	}
	return nil
}
