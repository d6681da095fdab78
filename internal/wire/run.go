package wire

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// runBlock is the memory of one run's message: a delivery costs one allocation however many times it carries.
type runBlock struct {
	run                                         pb.Run
	scheduled, due, started, finished, deadline timestamppb.Timestamp
}

// RunToProto is the run as a message.
func RunToProto(r *carillon.Run) *pb.Run {
	b := &runBlock{}
	b.fill(r)
	return &b.run
}

// RunsToProto is the runs as messages.
func RunsToProto(runs []carillon.Run) []*pb.Run {
	if len(runs) == 0 {
		return nil
	}
	blocks := make([]runBlock, len(runs))
	out := make([]*pb.Run, len(runs))
	for i := range runs {
		blocks[i].fill(&runs[i])
		out[i] = &blocks[i].run
	}
	return out
}

func (b *runBlock) fill(r *carillon.Run) {
	m := &b.run
	m.Id, m.Namespace, m.Job = r.ID, r.Namespace, r.Job
	m.Cause, m.Status = enumTo[pb.Cause](r.Cause), enumTo[pb.RunStatus](r.Status)
	m.ScheduledTime = fillTimestamp(&b.scheduled, r.Scheduled)
	m.DueTime = fillTimestamp(&b.due, r.Due)
	m.Attempt = clampInt32(r.Attempt)
	m.StartTime = fillTimestamp(&b.started, r.Started)
	m.FinishTime = fillTimestamp(&b.finished, r.Finished)
	m.Token, m.Queue = r.Token, r.Queue
	m.Deadline = fillTimestamp(&b.deadline, r.Deadline)
	m.Lease = durationText(r.Lease)
	m.Data, m.Payload, m.ContentType = r.Data.Bytes, payloadText(r.Data.Ref), r.Data.ContentType
	m.Metadata = r.Metadata
	for _, e := range r.Errors {
		m.Errors = append(m.Errors, &pb.AttemptError{Attempt: clampInt32(e.Attempt), Time: timestamp(e.At),
			Message:  text(e.Message),
			Redriven: e.Redriven})
	}
	m.Response, m.Worker, m.Reason = r.Response, text(r.Worker), text(r.Reason)
	m.Skipped, m.FromTime, m.Hold = r.Skipped.Times, timestamp(r.Skipped.From), holdToProto(r.Hold)
	if r.Progress != nil {
		m.Progress = sayProgress(r.Progress)
	}
	m.Backfill, m.InDoubt = r.Backfill, clampInt32(r.InDoubt)
}

func holdToProto(h *carillon.Hold) *pb.Hold {
	if h == nil {
		return nil
	}
	return &pb.Hold{Code: text(h.Code), Text: text(h.Text), Since: timestamp(h.Since), Until: timestamp(h.Until)}
}

func holdFromProto(m *pb.Hold) *carillon.Hold {
	if m == nil {
		return nil
	}
	return &carillon.Hold{Code: m.GetCode(), Text: m.GetText(), Since: instant(m.GetSince()),
		Until: instant(m.GetUntil())}
}

func sayProgress(p *carillon.Progress) *pb.Progress {
	return &pb.Progress{Percent: p.Percent, Message: text(p.Message), At: timestamp(p.At)}
}

func progress(m *pb.Progress) carillon.Progress {
	return carillon.Progress{Percent: m.GetPercent(), Message: m.GetMessage(), At: instant(m.GetAt())}
}

func optionalRunToProto(r *carillon.Run) *pb.Run {
	if r == nil {
		return nil
	}
	return RunToProto(r)
}

// RunFromProto is the message as a run.
func RunFromProto(m *pb.Run) (carillon.Run, error) {
	var f first
	r := f.run(m)
	return r, f.err
}

// RunsFromProto is the messages as runs.
func RunsFromProto(ms []*pb.Run) ([]carillon.Run, error) {
	var f first
	runs := fromEach(ms, f.run)
	return runs, f.err
}

func (f *first) run(m *pb.Run) carillon.Run {
	r := carillon.Run{
		ID: m.GetId(), Namespace: m.GetNamespace(), Job: m.GetJob(),
		Cause:     enumFrom[carillon.Cause](f, m.GetCause(), pb.Cause_name, "cause"),
		Status:    enumFrom[carillon.RunStatus](f, m.GetStatus(), pb.RunStatus_name, "status"),
		Scheduled: instant(m.GetScheduledTime()), Due: instant(m.GetDueTime()), Attempt: int(m.GetAttempt()),
		Started: instant(m.GetStartTime()), Finished: instant(m.GetFinishTime()),
		Token: m.GetToken(), Queue: m.GetQueue(), Deadline: instant(m.GetDeadline()),
		Lease: f.duration(m.GetLease(), "lease"), Data: f.data(m),
		Metadata: m.GetMetadata(), Response: m.GetResponse(), Worker: m.GetWorker(), Reason: m.GetReason(),
		Skipped:  carillon.Skipped{Times: m.GetSkipped(), From: instant(m.GetFromTime())},
		Backfill: m.GetBackfill(), InDoubt: int(m.GetInDoubt()), Hold: holdFromProto(m.GetHold()),
	}
	if m.GetProgress() != nil {
		p := progress(m.GetProgress())
		r.Progress = &p
	}
	for _, e := range m.GetErrors() {
		r.Errors = append(r.Errors,
			carillon.AttemptError{Attempt: int(e.GetAttempt()), At: instant(e.GetTime()), Message: e.GetMessage(),
				Redriven: e.GetRedriven()})
	}
	return r
}

func (f *first) optionalRun(m *pb.Run) *carillon.Run {
	if m == nil {
		return nil
	}
	r := f.run(m)
	return &r
}

// optionalEnum is an enum of a query; nil for "unspecified".
func optionalEnum[W ~uint8, P ~int32](f *first, p P, values map[int32]string, field string) *W {
	if p == 0 {
		return nil
	}
	w := enumFrom[W](f, p, values, field)
	return &w
}

func optionalEnumTo[P ~int32, W ~uint8](w *W) P {
	if w == nil {
		return 0
	}
	return enumTo[P](*w)
}
