package daprrecord

import (
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// contentType of the data of a Dapr job: an encoded google.protobuf.Any. A job without has none.
const contentType = "application/protobuf"

// What a caller wrote in words that Carillon does not know, or reads otherwise, is kept in the metadata of
// the job under these keys, with the words that stand for it: as long as those are the job's, a sidecar is
// shown what was written.
const (
	writtenSchedule = "dapr.schedule"
	writtenDue      = "dapr.due_time"
	writtenTTL      = "dapr.ttl"
	writtenRepeats  = "dapr.repeats"
	writtenPolicy   = "dapr.failure_policy"
)

// NewJob returns a job of Dapr as Carillon keeps it. The errors are those of Dapr's scheduler, but for what
// only Carillon refuses.
func NewJob(key carillon.Key, t *carillon.DaprTarget, m *pb.Job, now time.Time) (carillon.Job, error) {
	job, err := draft(key, t, m)
	if err != nil {
		return job, err
	}
	if m.Repeats != nil && m.Schedule == nil { // it runs once anyway
		keep(&job, writtenRepeats, "0", "1")
	}
	err = setLife(&job, m, now.UTC())
	return job, err
}

// draft is the job without its times.
func draft(key carillon.Key, t *carillon.DaprTarget, m *pb.Job) (carillon.Job, error) {
	job := carillon.Job{
		Namespace: key.Namespace, Name: key.Name, Target: carillon.Target{Dapr: t},
	}
	if err := checkForm(m); err != nil {
		return job, err
	}
	if m.Schedule != nil {
		var err error
		if job.Schedule, err = ScheduleText(m.GetSchedule()); err != nil {
			return job, refused("job.schedule", err)
		}
		job.Calendars.DST = carillon.DSTLiteral
		job.Misfire.Rule, job.Misfire.Limit = carillon.MisfireAll, carillon.MaxCatchUp
		keep(&job, writtenSchedule, job.Schedule, m.GetSchedule())
	}
	if m.Repeats != nil && m.Schedule != nil {
		job.Repeats = uint64(m.GetRepeats())
	}
	setPolicy(&job, m.GetFailurePolicy())
	if m.GetData() != nil {
		b, err := proto.Marshal(m.GetData())
		if err != nil {
			return job, refuse("job.data", "%v", err)
		}
		job.Data = carillon.Bytes(b, contentType)
	}
	return job, nil
}

// checkForm is about which fields need which.
func checkForm(m *pb.Job) error {
	switch {
	case m == nil:
		return carillon.Errorf(carillon.InvalidArgument, "job", "it is missing")
	case m.DueTime == nil && m.Schedule == nil:
		return refuse("job", "it has neither a schedule nor a due_time; give one of them")
	case m.Schedule == nil && m.GetRepeats() > 1:
		return refuse("job.repeats", "%d of a job without a schedule; give a schedule or leave it out",
			m.GetRepeats())
	case m.Repeats != nil && m.GetRepeats() < 1:
		return refuse("job.repeats", "0 is not greater than 0; leave it out for no limit")
	case m.Schedule == nil && m.Ttl != nil:
		return refuse("job.ttl", "a job without a schedule has none; give a schedule or leave it out")
	}
	return nil
}

// setLife sets the due time and the end of the job's life.
func setLife(job *carillon.Job, m *pb.Job, now time.Time) error {
	begin := now
	if m.DueTime != nil {
		var err error
		if begin, err = instantOf(m.GetDueTime(), now); err != nil {
			return refused("job.due_time", err)
		}
		job.Due = whenOf(m.GetDueTime(), begin, now)
		keep(job, writtenDue, job.Due.String(), m.GetDueTime())
	}
	if m.Ttl == nil {
		return nil
	}
	end, err := instantOf(m.GetTtl(), begin)
	switch {
	case err != nil:
		return refused("job.ttl", err)
	case m.DueTime != nil && begin.After(end):
		return refuse("job.ttl", "the job's life ends at %s, before its due_time", end.UTC().Format(time.RFC3339))
	}
	job.TTL = whenOf(m.GetTtl(), end, begin)
	keep(job, writtenTTL, job.TTL.String(), m.GetTtl())
	return nil
}

// keep remembers what was written if it is not what the job has.
func keep(job *carillon.Job, key, has, written string) {
	if has == written {
		return
	}
	if job.Metadata == nil {
		job.Metadata = map[string]string{}
	}
	job.Metadata[key] = has + "\n" + written
}

// written is what was written for what the job has; ok is false if that was the same, or has been changed
// since.
func written(job *carillon.Job, key, has string) (text string, ok bool) {
	return strings.CutPrefix(job.Metadata[key], has+"\n")
}

// asWritten is what a sidecar is shown for a text of the job; nil if there is none.
func asWritten(job *carillon.Job, key, has string) *string {
	if text, ok := written(job, key, has); ok {
		has = text
	}
	if has == "" {
		return nil
	}
	return &has
}

// repeatsAsWritten is what a sidecar is shown for the job's repeats.
func repeatsAsWritten(job *carillon.Job) *uint32 {
	text := asWritten(job, writtenRepeats, strconv.FormatUint(job.Repeats, 10))
	if text == nil {
		return nil
	}
	n, err := strconv.ParseUint(*text, 10, 64)
	if err != nil || n == 0 {
		return nil
	}
	return new(uint32(min(n, math.MaxUint32)))
}

// ToDapr returns a job as its sidecar put it, whatever has been done to it since through Carillon's own API.
func ToDapr(job *carillon.Job) *pb.Job {
	return &pb.Job{
		Schedule:      asWritten(job, writtenSchedule, job.Schedule),
		DueTime:       asWritten(job, writtenDue, job.Due.String()),
		Ttl:           asWritten(job, writtenTTL, job.TTL.String()),
		Data:          AnyOf(job.Data),
		Repeats:       repeatsAsWritten(job),
		FailurePolicy: policyToDapr(job),
	}
}

// AnyOf returns a job's data as its sidecar gave them; nil if there are none. Data of another kind, given
// through Carillon's own API, are the bytes of a google.protobuf.BytesValue.
func AnyOf(d carillon.Data) *anypb.Any {
	if d.ContentType == contentType {
		a := new(anypb.Any)
		if proto.Unmarshal(d.Bytes, a) == nil {
			return a
		}
	}
	if len(d.Bytes) == 0 {
		return nil
	}
	a, err := anypb.New(wrapperspb.Bytes(d.Bytes))
	if err != nil {
		return nil // bytes can always be encoded
	}
	return a
}
