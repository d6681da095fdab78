package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TimesQueryToProto is the query as a request.
func TimesQueryToProto(q *carillon.TimesQuery) *pb.ListTimesRequest {
	return &pb.ListTimesRequest{Namespace: q.Key.Namespace, Name: q.Key.Name, Count: clampInt32(q.Count),
		Until: timestamp(q.Until)}
}

// TimesQueryFromProto is the request as a query.
func TimesQueryFromProto(m *pb.ListTimesRequest) (carillon.TimesQuery, error) {
	var f first
	q := carillon.TimesQuery{Key: carillon.Key{Namespace: m.GetNamespace(), Name: m.GetName()},
		Count: int(m.GetCount()), Until: f.bound(m.GetUntil(), "until")}
	return q, f.err
}

// TimetableToProto is the timetable as a message.
func TimetableToProto(t *carillon.Timetable) *pb.ListTimesResponse {
	m := &pb.ListTimesResponse{Times: toEach(t.Times, func(p *carillon.PlannedTime) *pb.PlannedTime {
		return &pb.PlannedTime{ScheduledTime: timestamppb.New(p.Scheduled), DueTime: timestamppb.New(p.Due),
			Past: p.Past, UtcOffsetSeconds: seconds(p.Offset), OffsetChangeSeconds: seconds(p.Shift)}
	})}
	if t.End != nil {
		m.End, m.EndText = text(t.End.Code), text(t.End.Text)
	}
	if t.Excluded != nil {
		m.ExcludedTime, m.ExcludedBy = timestamp(t.Excluded.At), t.Excluded.By
	}
	return m
}

// TimetableFromProto is the message as a timetable.
func TimetableFromProto(m *pb.ListTimesResponse) carillon.Timetable {
	t := carillon.Timetable{Times: fromEach(m.GetTimes(), func(p *pb.PlannedTime) carillon.PlannedTime {
		return carillon.PlannedTime{Scheduled: instant(p.GetScheduledTime()), Due: instant(p.GetDueTime()),
			Past: p.GetPast(), Offset: time.Duration(p.GetUtcOffsetSeconds()) * time.Second,
			Shift: time.Duration(p.GetOffsetChangeSeconds()) * time.Second}
	})}
	if m.GetEnd() != "" {
		t.End = &carillon.TimesEnd{Code: m.GetEnd(), Text: m.GetEndText()}
	}
	if m.GetExcludedTime() != nil {
		t.Excluded = &carillon.ExcludedTime{At: instant(m.GetExcludedTime()), By: m.GetExcludedBy()}
	}
	return t
}

func seconds(d time.Duration) int32 { return clampInt32(int(d / time.Second)) }
