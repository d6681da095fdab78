package wire

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// BackfillToProto is the backfill as a message.
func BackfillToProto(b *carillon.Backfill) *pb.Backfill {
	return &pb.Backfill{
		Id: b.ID, Namespace: b.Namespace, Job: b.Job,
		From: timestamp(b.Spec.From), To: timestamp(b.Spec.To), Overlap: enumTo[pb.Overlap](b.Spec.Overlap),
		Rate: b.Spec.Rate, Status: enumTo[pb.BackfillStatus](b.Status), Total: b.Total, Begun: b.Begun,
		Succeeded: b.Succeeded, Failed: b.Failed, NextTime: timestamp(b.Next), CreateTime: timestamp(b.Created),
		FinishTime: timestamp(b.Finished),
	}
}

// BackfillsToProto is the backfills as messages.
func BackfillsToProto(bs []carillon.Backfill) []*pb.Backfill {
	return toEach(bs, BackfillToProto)
}

// BackfillFromProto is the message as a backfill.
func BackfillFromProto(m *pb.Backfill) (carillon.Backfill, error) {
	var f first
	b := f.backfill(m)
	return b, f.err
}

// BackfillsFromProto is the messages as backfills.
func BackfillsFromProto(ms []*pb.Backfill) ([]carillon.Backfill, error) {
	var f first
	bs := fromEach(ms, f.backfill)
	return bs, f.err
}

func (f *first) backfill(m *pb.Backfill) carillon.Backfill {
	return carillon.Backfill{
		ID: m.GetId(), Namespace: m.GetNamespace(), Job: m.GetJob(), Spec: f.spec(m),
		Status: enumFrom[carillon.BackfillStatus](f, m.GetStatus(), pb.BackfillStatus_name, "status"),
		Total:  m.GetTotal(), Begun: m.GetBegun(), Succeeded: m.GetSucceeded(), Failed: m.GetFailed(),
		Next: instant(m.GetNextTime()), Created: instant(m.GetCreateTime()), Finished: instant(m.GetFinishTime()),
	}
}

// specMessage is a message with the fields of a spec.
type specMessage interface {
	GetFrom() *timestamppb.Timestamp
	GetTo() *timestamppb.Timestamp
	GetOverlap() pb.Overlap
	GetRate() float64
}

func (f *first) spec(m specMessage) carillon.BackfillSpec {
	return carillon.BackfillSpec{From: f.time(m.GetFrom(), "from"), To: f.time(m.GetTo(), "to"),
		Overlap: enumFrom[carillon.Overlap](f, m.GetOverlap(), pb.Overlap_name, "overlap"), Rate: m.GetRate()}
}

// SpecToProto is what to run a job at as a request.
func SpecToProto(key carillon.Key, s *carillon.BackfillSpec) *pb.StartBackfillRequest {
	return &pb.StartBackfillRequest{Namespace: key.Namespace, Name: key.Name, From: timestamp(s.From),
		To: timestamp(s.To), Overlap: enumTo[pb.Overlap](s.Overlap), Rate: s.Rate}
}

// SpecFromProto is the request as what to run the job at.
func SpecFromProto(m *pb.StartBackfillRequest) (carillon.BackfillSpec, error) {
	var f first
	s := f.spec(m)
	return s, f.err
}
