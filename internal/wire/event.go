package wire

import (
	"strings"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// WatchQueryToProto is the query as a request.
func WatchQueryToProto(q *carillon.WatchQuery) *pb.WatchRequest {
	types := make([]string, len(q.Types))
	for i, t := range q.Types {
		types[i] = string(t)
	}
	return &pb.WatchRequest{Namespace: q.Namespace, Prefix: q.Prefix, Types: strings.Join(types, ","),
		Position: q.Position}
}

// WatchQueryFromProto is the request as a query.
func WatchQueryFromProto(m *pb.WatchRequest) carillon.WatchQuery {
	q := carillon.WatchQuery{Namespace: m.GetNamespace(), Prefix: m.GetPrefix(), Position: m.GetPosition()}
	if m.GetTypes() == "" {
		return q
	}
	for t := range strings.SplitSeq(m.GetTypes(), ",") {
		q.Types = append(q.Types, carillon.EventType(strings.TrimSpace(t)))
	}
	return q
}

// EventBatchToProto is the batch as a message.
func EventBatchToProto(b *carillon.EventBatch) *pb.WatchResponse {
	return &pb.WatchResponse{Events: toEach(b.Events, EventToProto), Position: b.Position}
}

// EventBatchFromProto is the message as a batch.
func EventBatchFromProto(m *pb.WatchResponse) (carillon.EventBatch, error) {
	var f first
	b := carillon.EventBatch{Events: fromEach(m.GetEvents(), f.event), Position: m.GetPosition()}
	return b, f.err
}

// EventToProto is the event as a message.
func EventToProto(e *carillon.Event) *pb.Event {
	return &pb.Event{
		Id: e.ID, Type: string(e.Type), Time: timestamp(e.Time), Namespace: e.Namespace, Job: e.Job,
		Generation: e.Generation, Run: e.Run, ScheduledTime: timestamp(e.Scheduled),
		Attempt: clampInt32(e.Attempt), Reason: text(e.Reason), Error: text(e.Error),
		RetryTime: timestamp(e.RetryAt), Skipped: e.Skipped, FromTime: timestamp(e.From),
		Late: durationText(e.Late), Queue: text(e.Queue), QueueKind: e.QueueKind, Node: text(e.Node),
	}
}

func (f *first) event(m *pb.Event) carillon.Event {
	return carillon.Event{
		ID: m.GetId(), Type: carillon.EventType(m.GetType()), Time: instant(m.GetTime()),
		Namespace: m.GetNamespace(), Job: m.GetJob(), Generation: m.GetGeneration(), Run: m.GetRun(),
		Scheduled: instant(m.GetScheduledTime()), Attempt: int(m.GetAttempt()), Reason: m.GetReason(),
		Error: m.GetError(), RetryAt: instant(m.GetRetryTime()), Skipped: m.GetSkipped(),
		From: instant(m.GetFromTime()), Late: f.duration(m.GetLate(), "late"),
		Queue: m.GetQueue(), QueueKind: m.GetQueueKind(), Node: m.GetNode(),
	}
}
