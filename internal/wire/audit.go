package wire

import (
	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// AuditEntryToProto is the entry as a message.
func AuditEntryToProto(e *carillon.AuditEntry) *pb.AuditEntry {
	m := &pb.AuditEntry{Chain: e.Chain, Seq: e.Seq, Hash: e.Hash, Time: timestamp(e.Time),
		Principal: text(e.Principal), Address: text(e.Address), Node: text(e.Node), Action: text(e.Action),
		Namespace: text(e.Namespace), Resource: text(e.Resource), Outcome: text(e.Outcome),
		RequestId: text(e.RequestID), LeftOut: e.LeftOut}
	for _, f := range e.Fields {
		m.Fields = append(m.Fields, text(f))
	}
	return m
}

// AuditEntryFromProto is the message as an entry.
func AuditEntryFromProto(m *pb.AuditEntry) carillon.AuditEntry {
	return carillon.AuditEntry{Chain: m.GetChain(), Seq: m.GetSeq(), Hash: m.GetHash(),
		Time: instant(m.GetTime()), Principal: m.GetPrincipal(), Address: m.GetAddress(), Node: m.GetNode(),
		Action: m.GetAction(), Namespace: m.GetNamespace(), Resource: m.GetResource(), Outcome: m.GetOutcome(),
		RequestID: m.GetRequestId(), Fields: m.GetFields(), LeftOut: m.GetLeftOut()}
}

// AuditQueryToProto is the query as a request.
func AuditQueryToProto(q *carillon.AuditQuery) *pb.ListAuditRequest {
	return &pb.ListAuditRequest{Namespace: q.Namespace, Principal: text(q.Principal), Action: text(q.Action),
		Outcome: text(q.Outcome), Since: timestamp(q.Since), Until: timestamp(q.Until),
		PageSize: int32(min(max(q.PageSize, -1), 1<<20)), PageToken: q.PageToken}
}

// AuditQueryFromProto is the request as a query.
func AuditQueryFromProto(m *pb.ListAuditRequest) (carillon.AuditQuery, error) {
	var f first
	q := carillon.AuditQuery{Namespace: m.GetNamespace(), Principal: m.GetPrincipal(), Action: m.GetAction(),
		Outcome: m.GetOutcome(), Since: f.time(m.GetSince(), "since"), Until: f.time(m.GetUntil(), "until"),
		PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken()}
	return q, f.err
}

// AuditPageToProto is the page as a message.
func AuditPageToProto(p carillon.AuditPage) *pb.ListAuditResponse {
	return &pb.ListAuditResponse{Entries: toEach(p.Entries, AuditEntryToProto), NextPageToken: p.NextPageToken}
}

// AuditChainToProto is the chain as a message.
func AuditChainToProto(c *carillon.AuditChain) *pb.AuditChain {
	return &pb.AuditChain{Chain: c.Chain, Seq: c.Seq, Hash: c.Hash, Partition: int32(c.Partition),
		First: c.First, Entries: c.Entries, Closed: c.Closed, Broken: text(c.Broken), BrokenAt: c.BrokenAt}
}

// AuditChainFromProto is the message as a chain.
func AuditChainFromProto(m *pb.AuditChain) carillon.AuditChain {
	return carillon.AuditChain{
		AuditHead: carillon.AuditHead{Chain: m.GetChain(), Seq: m.GetSeq(), Hash: m.GetHash()},
		Partition: int(m.GetPartition()), First: m.GetFirst(), Entries: m.GetEntries(), Closed: m.GetClosed(),
		Broken: m.GetBroken(), BrokenAt: m.GetBrokenAt()}
}

// AuditChainsToProto are the chains as a message.
func AuditChainsToProto(all []carillon.AuditChain) *pb.VerifyAuditResponse {
	return &pb.VerifyAuditResponse{Chains: toEach(all, AuditChainToProto)}
}
