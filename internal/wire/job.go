package wire

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// jobBlock is the memory of one job's message with its target, which most often is a worker queue.
type jobBlock struct {
	job    pb.Job
	target pb.Target
	kind   pb.Target_Worker
	worker pb.WorkerTarget
}

// JobToProto is the job as a message.
func JobToProto(j *carillon.Job) *pb.Job {
	b := &jobBlock{}
	b.fill(j)
	if j.Status != nil {
		b.job.Status = new(statusBlock).fill(j.Status)
	}
	return &b.job
}

// fill fills in all but the status.
func (b *jobBlock) fill(j *carillon.Job) {
	m := &b.job
	m.Namespace, m.Name = j.Namespace, j.Name
	m.Schedule, m.TimeZone, m.Dst = j.Schedule, j.TimeZone, enumTo[pb.DaylightSaving](j.Calendars.DST)
	m.Except, m.Only = j.Calendars.Except, j.Calendars.Only
	m.DueTime, m.Repeats, m.Ttl, m.Jitter = j.Due.String(), j.Repeats, j.TTL.String(), durationText(j.Jitter)
	m.Data, m.Payload, m.ContentType = j.Data.Bytes, payloadText(j.Data.Ref), j.Data.ContentType
	m.Metadata, m.Labels = j.Metadata, j.Labels
	m.Target, m.FailurePolicy = b.fillTarget(&j.Target), policyToProto(&j.FailurePolicy)
	m.Timeout, m.Lease = durationText(j.Timeout), durationText(j.Lease)
	m.Overlap, m.Misfire = enumTo[pb.Overlap](j.Overlap), enumTo[pb.Misfire](j.Misfire.Rule)
	m.CatchUpLimit, m.CatchUpWindow = clampInt32(j.Misfire.Limit), durationText(j.Misfire.Window)
	m.Priority, m.ConcurrencyKey, m.DependsOn = enumTo[pb.Priority](j.Priority), j.ConcurrencyKey, j.DependsOn
	m.Paused, m.Note, m.History = j.Paused, text(j.Note), historyToProto(j.History)
}

func (b *jobBlock) fillTarget(t *carillon.Target) *pb.Target {
	if t.Worker == nil || *t != (carillon.Target{Worker: t.Worker}) {
		return targetToProto(t)
	}
	b.worker.Queue = t.Worker.Queue
	b.kind.Worker = &b.worker
	b.target.Kind = &b.kind
	return &b.target
}

// JobFromProto is the message as a job.
func JobFromProto(m *pb.Job) (carillon.Job, error) {
	var f first
	j := carillon.Job{
		Namespace:      m.GetNamespace(),
		Name:           m.GetName(),
		Schedule:       m.GetSchedule(),
		TimeZone:       m.GetTimeZone(),
		Calendars:      f.calendars(m),
		Due:            carillon.WhenText(m.GetDueTime()),
		Repeats:        m.GetRepeats(),
		TTL:            carillon.WhenText(m.GetTtl()),
		Jitter:         f.duration(m.GetJitter(), "jitter"),
		Data:           f.data(m),
		Metadata:       m.GetMetadata(),
		Labels:         m.GetLabels(),
		Target:         targetFromProto(m.GetTarget()),
		Timeout:        f.duration(m.GetTimeout(), "timeout"),
		Lease:          f.duration(m.GetLease(), "lease"),
		ConcurrencyKey: m.GetConcurrencyKey(),
		DependsOn:      m.GetDependsOn(),
		Paused:         m.GetPaused(),
		Note:           m.GetNote(),
	}
	f.policies(&j, m)
	f.status(&j, m.GetStatus())
	if f.err != nil {
		return carillon.Job{}, f.err
	}
	return j, nil
}

// policies reads the fields that say what becomes of runs.
func (f *first) policies(j *carillon.Job, m *pb.Job) {
	j.FailurePolicy = f.failurePolicy(m.GetFailurePolicy())
	j.Overlap = enumFrom[carillon.Overlap](f, m.GetOverlap(), pb.Overlap_name, "overlap")
	j.Misfire.Rule = enumFrom[carillon.MisfireRule](f, m.GetMisfire(), pb.Misfire_name, "misfire")
	j.Misfire.Limit = int(m.GetCatchUpLimit())
	j.Misfire.Window = f.duration(m.GetCatchUpWindow(), "catch_up_window")
	j.Priority = enumFrom[carillon.Priority](f, m.GetPriority(), pb.Priority_name, "priority")
	j.History = carillon.History{
		Runs: int(m.GetHistory().GetRuns()),
		Keep: f.duration(m.GetHistory().GetKeep(), "history.keep"), NoResults: m.GetHistory().GetNoResults(),
	}
}

// calendars reads what a schedule does when clocks change, and which calendars it refers to.
func (f *first) calendars(m *pb.Job) carillon.CalendarRules {
	return carillon.CalendarRules{DST: f.dst(m.GetDst()), Except: m.GetExcept(), Only: m.GetOnly()}
}

func (f *first) dst(p pb.DaylightSaving) carillon.DST {
	return enumFrom[carillon.DST](f, p, pb.DaylightSaving_name, "dst")
}

func historyToProto(h carillon.History) *pb.History {
	if h == (carillon.History{}) {
		return nil
	}
	return &pb.History{Runs: clampInt32(h.Runs), Keep: durationText(h.Keep), NoResults: h.NoResults}
}

// statusBlock is the memory of what every status has.
type statusBlock struct {
	status           pb.JobStatus
	counters         pb.Counters
	created, updated timestamppb.Timestamp
	nextRun          timestamppb.Timestamp
}

func (b *statusBlock) fill(s *carillon.JobStatus) *pb.JobStatus {
	m := &b.status
	m.Uid = s.UID[:]
	m.Generation = s.Generation
	m.CreateTime = fillTimestamp(&b.created, s.Created)
	m.UpdateTime = fillTimestamp(&b.updated, s.Updated)
	m.Phase = enumTo[pb.Phase](s.Phase)
	m.NextRunTime = fillTimestamp(&b.nextRun, s.NextRun)
	m.LastRun = optionalRunToProto(s.LastRun)
	m.CurrentRun = optionalRunToProto(s.Current)
	m.RunsCount = s.Counters.Fired
	m.Counters = &b.counters
	fillCounters(m.Counters, s.Counters)
	m.Waiting = s.Waiting
	m.Missing, m.MissingCalendars = s.Missing, s.MissingCalendars
	m.PendingRuns = RunsToProto(s.Pending)
	m.Hold = holdToProto(s.Hold)
	if s.Failures != 0 {
		m.Failures = &s.Failures
	}
	if s.PendingCount != 0 {
		m.PendingCount = &s.PendingCount
	}
	return m
}

func fillCounters(m *pb.Counters, c carillon.Counters) {
	m.Fired, m.Succeeded, m.Failed, m.Retried = c.Fired, c.Succeeded, c.Failed, c.Retried
	m.Dead, m.Skipped, m.Late, m.Dropped, m.Cancelled = c.Dead, c.Skipped, c.Late, c.Dropped, c.Cancelled
}

func (f *first) status(j *carillon.Job, m *pb.JobStatus) {
	if m == nil {
		return
	}
	c := m.GetCounters()
	j.Status = &carillon.JobStatus{
		Generation:       m.GetGeneration(),
		Created:          instant(m.GetCreateTime()),
		Updated:          instant(m.GetUpdateTime()),
		Phase:            enumFrom[carillon.Phase](f, m.GetPhase(), pb.Phase_name, "status.phase"),
		NextRun:          instant(m.GetNextRunTime()),
		LastRun:          f.optionalRun(m.GetLastRun()),
		Current:          f.optionalRun(m.GetCurrentRun()),
		Waiting:          m.GetWaiting(),
		Missing:          m.GetMissing(),
		MissingCalendars: m.GetMissingCalendars(),
		Pending:          fromEach(m.GetPendingRuns(), f.run),
		PendingCount:     m.GetPendingCount(),
		Hold:             holdFromProto(m.GetHold()),
		Failures:         m.GetFailures(),
		Counters: carillon.Counters{Fired: c.GetFired(), Succeeded: c.GetSucceeded(), Failed: c.GetFailed(),
			Retried: c.GetRetried(), Dead: c.GetDead(), Skipped: c.GetSkipped(), Late: c.GetLate(),
			Dropped: c.GetDropped(), Cancelled: c.GetCancelled()},
	}
	copy(j.Status.UID[:], m.GetUid())
}
