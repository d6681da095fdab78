package peer

import (
	"fmt"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

func dependencyToProto(e message.Dependency) *peerv1.Edge {
	return &peerv1.Edge{Namespace: e.Of.Namespace, Of: e.Of.Name, Name: e.Name}
}

func dependencyFromProto(m *peerv1.Edge) message.Dependency {
	return message.Dependency{Of: carillon.Key{Namespace: m.GetNamespace(), Name: m.GetOf()}, Name: m.GetName()}
}

// shareToProto encodes a share as a request. Its jobs are encoded like the store's intents. These hold
// everything about a job put in a batch except the initial state of its dependencies, which is sent beside
// them.
func shareToProto(s *message.Share) *peerv1.ApplyShareRequest {
	req := &peerv1.ApplyShareRequest{Batch: s.Batch, Coordinator: int32(s.Coordinator), Late: s.Late,
		Hold: s.Hold}
	if !s.Term.IsZero() {
		req.Term = termToProto(s.Term)
	}
	if len(s.Reqs) > 0 {
		req.At = s.Reqs[0].At // the same for all jobs of the batch
	}
	for i, small := range partition.CommitIntents(s.Batch, req.GetAt(), s.Reqs) {
		put := &peerv1.SharePut{Intent: small.Value}
		for _, w := range s.Reqs[i].Waits {
			put.Waits = append(put.Waits, waitToProto(w))
		}
		req.Puts = append(req.Puts, put)
	}
	return req
}

func shareFromProto(m *peerv1.ApplyShareRequest) (*message.Share, error) {
	small := make([]store.MetaRecord, len(m.GetPuts()))
	for i, put := range m.GetPuts() {
		small[i].Value = put.GetIntent()
	}
	reqs, err := partition.ReadIntents(small)
	if err != nil {
		return nil, carillon.Errorf(carillon.InvalidArgument, "puts", "%w", err)
	}
	for i, put := range m.GetPuts() {
		for _, w := range put.GetWaits() {
			wait, err := waitFromProto(w)
			if err != nil {
				return nil, wire.Within(fmt.Sprintf("puts[%d].waits", i), err)
			}
			reqs[i].Waits = append(reqs[i].Waits, wait)
		}
	}
	return &message.Share{Batch: m.GetBatch(), Coordinator: int(m.GetCoordinator()),
		Late: m.GetLate(), Reqs: reqs, Term: termFromProto(m.GetTerm()), Hold: m.GetHold()}, nil
}

func waitToProto(w store.Wait) *peerv1.Wait {
	m := &peerv1.Wait{Name: w.Name, Open: w.Open, Told: w.Told, ToldEpoch: w.ToldEpoch, Since: w.Since}
	if w.By != (store.RunID{}) {
		m.By = w.By.String()
	}
	return m
}

func waitFromProto(m *peerv1.Wait) (w store.Wait, err error) {
	w = store.Wait{Name: m.GetName(), Open: m.GetOpen(), Told: m.GetTold(), ToldEpoch: m.GetToldEpoch(),
		Since: m.GetSince()}
	if m.GetBy() != "" {
		w.By, err = store.ParseRunID(m.GetBy())
	}
	return w, err
}

// putsToProto leaves the payloads out: the caller has them, and a thousand may not fit into a message.
func putsToProto(puts []carillon.PutResult) *peerv1.ApplyShareResponse {
	m := &peerv1.ApplyShareResponse{StoredBefore: puts == nil, Puts: make([]*pb.PutJobResponse, len(puts))}
	for i := range puts {
		puts[i].Job.Data.Bytes = nil
		m.Puts[i] = wire.PutToProto(&puts[i])
	}
	return m
}

func reportsToProto(s message.RelayReports) *peerv1.HearRequest {
	r := carillon.WorkRequest{Heartbeats: s.Heartbeats}
	for i := range s.Reports {
		r.Results = append(r.Results, s.Reports[i].Result)
	}
	work := wire.WorkRequestToProto(&r)
	req := &peerv1.HearRequest{Heartbeats: work.GetHeartbeats(), Lost: s.Lost, Undelivered: s.Undelivered}
	for i, result := range work.GetResults() {
		from := &s.Reports[i]
		req.Reports = append(req.Reports, &peerv1.Report{Result: result, Namespace: from.Namespace,
			Async: from.Async, PauseJob: from.PauseJob, Worker: from.Worker})
	}
	return req
}

// reportsFromProto decodes relayed reports. bad holds the tokens of results that cannot be decoded, which
// change nothing.
func reportsFromProto(m *peerv1.HearRequest) (s message.RelayReports, bad []string) {
	s = message.RelayReports{Lost: m.GetLost(), Undelivered: m.GetUndelivered()}
	for _, b := range m.GetHeartbeats() {
		s.Heartbeats = append(s.Heartbeats, carillon.Heartbeat{Token: b.GetToken(), RunID: b.GetRunId(),
			Confirm: b.GetConfirm()})
	}
	for _, r := range m.GetReports() {
		one, err := wire.WorkRequestFromProto(&pb.WorkRequest{Results: []*pb.Result{r.GetResult()}})
		if err != nil {
			bad = append(bad, r.GetResult().GetToken())
			continue
		}
		s.Reports = append(s.Reports, delivery.Report{Result: one.Results[0], Namespace: r.GetNamespace(),
			Async:    r.GetAsync(),
			PauseJob: r.GetPauseJob(), Worker: r.GetWorker()})
	}
	return s, bad
}

func grantsToProto(grants []message.PermitGrant) []*peerv1.TokenGrant {
	ms := make([]*peerv1.TokenGrant, len(grants))
	for i, g := range grants {
		ms[i] = &peerv1.TokenGrant{Namespace: g.Namespace, Key: g.Key, Term: termToProto(g.Term),
			Stamp: stampToProto(g.Stamp), N: int64(g.N), Want: int64(g.Want), Rival: g.NextWaiter,
			Spent: g.Spent}
	}
	return ms
}

func grantsFromProto(ms []*peerv1.TokenGrant) []message.PermitGrant {
	grants := make([]message.PermitGrant, len(ms))
	for i, m := range ms {
		grants[i] = message.PermitGrant{Limit: delivery.Limit{Namespace: m.GetNamespace(), Key: m.GetKey()},
			Term: termFromProto(m.GetTerm()), Stamp: stampFromProto(m.GetStamp()), N: int(m.GetN()),
			Want: int(m.GetWant()), NextWaiter: m.GetRival(),
			Spent: m.GetSpent()}
	}
	return grants
}

func termToProto(t store.Term) *peerv1.Term { return &peerv1.Term{Epoch: t.Epoch, Nonce: t.Nonce} }

func termFromProto(m *peerv1.Term) store.Term {
	return store.Term{Epoch: m.GetEpoch(), Nonce: m.GetNonce()}
}

func stampToProto(s message.Stamp) *peerv1.TokenStamp {
	return &peerv1.TokenStamp{Epoch: s.Epoch, N: s.N}
}

func stampFromProto(m *peerv1.TokenStamp) message.Stamp {
	return message.Stamp{Epoch: m.GetEpoch(), N: m.GetN()}
}
