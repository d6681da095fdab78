package wire

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// IngestQueryToProto is the query as a request.
func IngestQueryToProto(q *carillon.IngestQuery) *pb.ListIngestsRequest {
	return &pb.ListIngestsRequest{Namespace: q.Namespace, PageSize: clampInt32(q.PageSize),
		PageToken: q.PageToken}
}

// IngestQueryFromProto is the request as a query.
func IngestQueryFromProto(m *pb.ListIngestsRequest) carillon.IngestQuery {
	return carillon.IngestQuery{Namespace: m.GetNamespace(), PageSize: int(m.GetPageSize()),
		PageToken: m.GetPageToken()}
}

// IngestsToProto is the topics of ingests as messages.
func IngestsToProto(all []carillon.Ingest) []*pb.Ingest {
	return toEach(all, func(i *carillon.Ingest) *pb.Ingest {
		return &pb.Ingest{Namespace: text(i.Namespace), Name: text(i.Name), Broker: text(i.Broker),
			Kind: text(i.Kind), Topic: text(i.Topic), Priority: clampInt32(i.Priority), Group: text(i.Group),
			DeadLetter: text(i.DeadLetter), Lag: lagToProto(&i.IngestState), InFlight: int64(i.InFlight),
			LastMessageTime: timestamp(i.LastMessage), Counts: ingestCountsToProto(i.Counts),
			Readers: toEach(i.Readers, ingestReaderToProto)}
	})
}

// IngestsFromProto is the messages as topics of ingests.
func IngestsFromProto(ms []*pb.Ingest) []carillon.Ingest {
	return fromEach(ms, func(m *pb.Ingest) carillon.Ingest {
		return carillon.Ingest{Namespace: m.GetNamespace(), Name: m.GetName(), Broker: m.GetBroker(),
			Kind: m.GetKind(), Topic: m.GetTopic(), Priority: int(m.GetPriority()), Group: m.GetGroup(),
			DeadLetter: m.GetDeadLetter(), IngestState: ingestStateFromProto(m, m.Lag),
			Readers: fromEach(m.GetReaders(), ingestReaderFromProto)}
	})
}

func ingestReaderToProto(r *carillon.IngestReader) *pb.IngestReader {
	return &pb.IngestReader{Node: text(r.Node), Since: timestamp(r.Since), Connected: r.Connected,
		Error: text(r.Error), ErrorSince: timestamp(r.ErrorSince), Retrying: text(r.Retrying),
		Lag: lagToProto(&r.IngestState), InFlight: int64(r.InFlight), LastMessageTime: timestamp(r.LastMessage),
		Counts: ingestCountsToProto(r.Counts)}
}

func ingestReaderFromProto(m *pb.IngestReader) carillon.IngestReader {
	return carillon.IngestReader{Node: m.GetNode(), Since: instant(m.GetSince()), Connected: m.GetConnected(),
		Error: m.GetError(), ErrorSince: instant(m.GetErrorSince()), Retrying: m.GetRetrying(),
		IngestState: ingestStateFromProto(m, m.Lag)}
}

// lagToProto leaves out a lag that is not known.
func lagToProto(s *carillon.IngestState) *int64 {
	if !s.LagKnown {
		return nil
	}
	return &s.Lag
}

func ingestCountsToProto(c carillon.IngestCounts) *pb.IngestCounts {
	return &pb.IngestCounts{Done: c.Done, Repeated: c.Repeated, Dead: c.Dead, Retried: c.Retried}
}

// ingestStateFromProto returns the state that a message says; lag is its lag.
func ingestStateFromProto(m interface {
	GetLag() int64
	GetInFlight() int64
	GetLastMessageTime() *timestamppb.Timestamp
	GetCounts() *pb.IngestCounts
}, lag *int64) carillon.IngestState {
	c := m.GetCounts()
	return carillon.IngestState{Lag: m.GetLag(), LagKnown: lag != nil, InFlight: int(m.GetInFlight()),
		LastMessage: instant(m.GetLastMessageTime()), Counts: carillon.IngestCounts{Done: c.GetDone(),
			Repeated: c.GetRepeated(), Dead: c.GetDead(), Retried: c.GetRetried()}}
}
