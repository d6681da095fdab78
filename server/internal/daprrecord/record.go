package daprrecord

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/schedule"
)

// What the keys begin with under which Dapr's scheduler stores jobs, how far they are, and which schedulers
// there are. The rest of a key is the job's name, as [Address.InDapr] writes it, or the scheduler's id.
const (
	JobPrefix        = "dapr/jobs/"
	CounterPrefix    = "dapr/counters/"
	LeadershipPrefix = "dapr/leadership/"
)

// ErrOver is the cause of an error about a job that never fires again.
var ErrOver = errors.New("it never fires again")

// ClusterOfCarillon is the id of the cluster with which Carillon answers to etcd's calls.
const ClusterOfCarillon uint64 = 0x7db32b6a9a839acd

// Record is a job as Dapr's scheduler stores it.
type Record struct {
	Name    string // its key after [JobPrefix]
	Job     *cronpb.StoredJob
	Counter *cronpb.Counter // how far it is; nil: it has not run yet
}

// Decode reads what is stored under the two keys of a name; there may be no counter. One that belongs to an
// earlier job of the name counts as none, as it does for Dapr's scheduler.
func Decode(name string, job, counter []byte) (Record, error) {
	r := Record{Name: name, Job: new(cronpb.StoredJob)}
	if err := unmarshal(job, r.Job); err != nil {
		return r, fmt.Errorf("the job cannot be read: %w", err)
	}
	if counter == nil {
		return r, nil
	}
	c, err := DecodeCounter(counter)
	if err != nil {
		return r, err
	}
	if c.GetJobPartitionId() == r.Job.GetPartitionId() {
		r.Counter = c
	}
	return r, nil
}

// DecodeCounter reads what is stored under the key of a counter.
func DecodeCounter(b []byte) (*cronpb.Counter, error) {
	c := new(cronpb.Counter)
	if err := unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("the counter cannot be read: %w", err)
	}
	return c, nil
}

// unmarshal reads a message and refuses what would be lost: fields that are not known here.
func unmarshal(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return err
	}
	if unknown(m.ProtoReflect()) {
		return errors.New("it has fields that this version does not know")
	}
	return nil
}

func unknown(m protoreflect.Message) (found bool) {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() != nil && !f.IsList() && !f.IsMap() {
			found = unknown(v.Message())
		}
		return !found
	})
	return found
}

// Encode returns what is stored under the two keys; counter is nil if there is none.
func (r *Record) Encode() (job, counter []byte, err error) {
	o := proto.MarshalOptions{Deterministic: true}
	if job, err = o.Marshal(r.Job); err != nil || r.Counter == nil {
		return job, nil, err
	}
	counter, err = o.Marshal(r.Counter)
	return job, counter, err
}

// address returns whose job the record is, and its name there.
func (r *Record) address() (Address, string, error) {
	m := new(pb.JobMetadata)
	if err := r.Job.GetJob().GetMetadata().UnmarshalTo(m); err != nil {
		return Address{}, "", fmt.Errorf("the job's metadata cannot be read: %w", err)
	}
	a, err := AddressOf(m)
	if err != nil {
		return a, "", err
	}
	name, found := strings.CutPrefix(r.Name, a.InDapr(""))
	switch {
	case !found:
		return a, "", fmt.Errorf("the key does not begin with %q, as the job's metadata ask for", a.InDapr(""))
	case a.Nowhere():
		return a, "", errors.New("a reminder needs an actor's type and id")
	}
	return a, name, nil
}

// asked returns the job as a sidecar asked for it. A record without a policy gives up what fails, while a
// request without one has the default.
func (r *Record) asked() *pb.Job {
	s := r.Job.GetJob()
	policy := s.GetFailurePolicy()
	if policy.GetPolicy() == nil {
		policy = plainPolicy(carillon.Drop())
	}
	return &pb.Job{Schedule: s.Schedule, DueTime: s.DueTime, Ttl: s.Ttl, Repeats: s.Repeats,
		Data: s.GetPayload(), FailurePolicy: policy}
}

// schedule returns the job's schedule in Carillon's words; nil if it has none.
func (r *Record) schedule() (*schedule.Schedule, error) {
	if r.Job.GetJob().Schedule == nil {
		return nil, nil
	}
	text, err := ScheduleText(r.Job.GetJob().GetSchedule())
	if err != nil {
		return nil, refused("job.schedule", err)
	}
	job := carillon.Job{Schedule: text, Calendars: carillon.CalendarRules{DST: carillon.DSTLiteral}}
	return job.ParseSchedule()
}

// Next returns the time for which the job is due next, as Dapr's scheduler finds it: possibly long past. The
// error is [ErrOver] if it never fires again.
func (r *Record) Next() (time.Time, error) {
	s, err := r.schedule()
	if err != nil {
		return time.Time{}, err
	}
	return r.dueNext(s)
}

// dueNext is Next for a job with the schedule; nil: none.
func (r *Record) dueNext(s *schedule.Schedule) (time.Time, error) {
	c, spec := r.Counter, r.Job.GetJob()
	begin, fires, err := r.begin()
	switch {
	case err != nil:
		return begin, err
	case s == nil && c.GetCount() > 0, spec.Repeats != nil && c.GetCount() >= spec.GetRepeats():
		return begin, ErrOver
	case s == nil && !fires:
		return begin, errors.New("it has neither a schedule nor a due time")
	}
	next, ok := begin, true
	if last := c.GetLastTrigger(); s != nil && last != nil {
		if err := last.CheckValid(); err != nil {
			return begin, fmt.Errorf("counter.last_trigger: %w", err)
		}
		next, ok = s.Next(last.AsTime(), last.AsTime())
	} else if s != nil && !fires {
		next, ok = s.Next(begin, begin)
	}
	if end, err := r.expires(); err != nil || !ok || !end.IsZero() && next.After(end) {
		return next, cmp.Or(err, ErrOver)
	}
	return bounded(next), nil
}

// begin returns from when the job's schedule counts, and whether it fires then.
func (r *Record) begin() (t time.Time, fires bool, err error) {
	var at *timestamppb.Timestamp
	switch of := r.Job.GetBegin().(type) {
	case *cronpb.StoredJob_Start:
		at = of.Start
	case *cronpb.StoredJob_DueTime:
		at, fires = of.DueTime, true
	default:
		return t, false, errors.New("begin: it is missing")
	}
	if err := at.CheckValid(); err != nil {
		return t, false, fmt.Errorf("begin: %w", err)
	}
	return at.AsTime(), fires, nil
}

// expires returns the end of the job's life; zero: none.
func (r *Record) expires() (time.Time, error) {
	at := r.Job.Expiration
	if at == nil {
		return time.Time{}, nil
	}
	if err := at.CheckValid(); err != nil {
		return time.Time{}, fmt.Errorf("expiration: %w", err)
	}
	return bounded(at.AsTime()), nil
}

// left returns how many runs the job may still begin; 0: any number.
func (r *Record) left() uint64 {
	spec := r.Job.GetJob()
	if spec.Repeats == nil || spec.Schedule == nil {
		return 0
	}
	return uint64(spec.GetRepeats() - min(spec.GetRepeats(), r.Counter.GetCount()))
}

// bounded returns the nearest time to t that Carillon can store.
func bounded(t time.Time) time.Time {
	switch {
	case t.Before(carillon.EarliestTime):
		return carillon.EarliestTime
	case t.After(carillon.LatestTime):
		return carillon.LatestTime
	}
	return t.UTC()
}
