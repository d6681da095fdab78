package wire

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// HelloToProto is the hello as a message.
func HelloToProto(h *carillon.Hello) *pb.Hello {
	return &pb.Hello{Namespace: h.Namespace, Queues: h.Queues, WorkerId: h.WorkerID, Labels: h.Labels,
		Direct: h.Direct, Version: text(h.Version), Payloads: h.Payloads}
}

// HelloFromProto is the message as a hello.
func HelloFromProto(m *pb.Hello) carillon.Hello {
	return carillon.Hello{Namespace: m.GetNamespace(), Queues: m.GetQueues(), WorkerID: m.GetWorkerId(),
		Labels: m.GetLabels(), Direct: m.GetDirect(), Version: m.GetVersion(), Payloads: m.GetPayloads()}
}

// WorkRequestToProto is the request as a message.
func WorkRequestToProto(r *carillon.WorkRequest) *pb.WorkRequest {
	return &pb.WorkRequest{Goodbye: r.Goodbye, Pong: r.Pong, Credits: creditsToProto(r.Credits),
		Results: fillEach(r.Results, fillResult),
		Heartbeats: fillEach(r.Heartbeats, func(m *pb.Heartbeat, b *carillon.Heartbeat) {
			m.Token, m.RunId, m.Confirm = b.Token, b.RunID, b.Confirm
		})}
}

// WorkRequestFromProto is the message, its hello aside, as a request.
func WorkRequestFromProto(m *pb.WorkRequest) (carillon.WorkRequest, error) {
	r := carillon.WorkRequest{Goodbye: m.GetGoodbye(), Pong: m.GetPong(),
		Credits: creditsFromProto(m.GetCredits())}
	if ms := m.GetResults(); len(ms) > 0 {
		r.Results = make([]carillon.Result, len(ms))
		for i, x := range ms {
			var err error
			if r.Results[i], err = resultFromProto(x, x.GetRunId()); err != nil {
				return r, Within(fmt.Sprintf("results[%d]", i), err)
			}
		}
	}
	r.Heartbeats = fromEach(m.GetHeartbeats(), func(b *pb.Heartbeat) carillon.Heartbeat {
		return carillon.Heartbeat{Token: b.GetToken(), RunID: b.GetRunId(), Confirm: b.GetConfirm()}
	})
	return r, nil
}

func creditsToProto(cs []carillon.Credit) []*pb.Credit {
	return fillEach(cs, func(m *pb.Credit, c *carillon.Credit) { m.Queue, m.N = c.Queue, clampInt32(c.N) })
}

func creditsFromProto(ms []*pb.Credit) []carillon.Credit {
	return fromEach(ms, func(m *pb.Credit) carillon.Credit {
		return carillon.Credit{Queue: m.GetQueue(), N: int(m.GetN())}
	})
}

func fillResult(m *pb.Result, r *carillon.Result) {
	m.Token, m.RunId, m.Outcome = r.Token, r.RunID, enumTo[pb.Outcome](r.Outcome)
	m.Message, m.Permanent = text(r.Message), r.Permanent
	m.RetryAfter, m.Response = durationText(r.RetryAfter), r.Response
	m.Progress, m.At = progressToProto(r), timestamp(r.At)
}

// progressToProto is a result's progress; it is there if the outcome needs it, even if it says nothing.
func progressToProto(r *carillon.Result) *pb.Progress {
	if r.Outcome != carillon.OutcomeProgress && r.Progress == (carillon.Progress{}) {
		return nil
	}
	return sayProgress(&r.Progress)
}

// resultMessage is a message with the fields of a result, its run aside.
type resultMessage interface {
	GetToken() string
	GetOutcome() pb.Outcome
	GetMessage() string
	GetPermanent() bool
	GetRetryAfter() string
	GetResponse() []byte
	GetProgress() *pb.Progress
	GetAt() *timestamppb.Timestamp
}

// resultFromProto is the message as a result, with what its outcome needs.
func resultFromProto(m resultMessage, run string) (carillon.Result, error) {
	var f first
	r := carillon.Result{
		Token: m.GetToken(), RunID: run, Message: m.GetMessage(),
		Outcome:   enumFrom[carillon.Outcome](&f, m.GetOutcome(), pb.Outcome_name, "outcome"),
		Permanent: m.GetPermanent(), RetryAfter: f.duration(m.GetRetryAfter(), "retry_after"),
		Response: m.GetResponse(), At: f.time(m.GetAt(), "at"),
	}
	if p := m.GetProgress(); p != nil {
		r.Progress = progress(p)
	} else if r.Outcome == carillon.OutcomeProgress {
		f.keep(invalid("progress", "it is missing; say how far the attempt is"))
	}
	f.keep(r.Validate())
	return r, f.err
}

// WorkResponseToProto is the response as a message.
func WorkResponseToProto(r *carillon.WorkResponse) *pb.WorkResponse {
	return &pb.WorkResponse{Runs: RunsToProto(r.Runs), Cancel: r.Cancel, Stale: r.Stale, Acks: r.Acks,
		Nodes: r.Nodes, Drain: r.Drain,
		Wanted: r.Wanted, Withdrawn: creditsToProto(r.Withdrawn), Ping: r.Ping, Confirmed: r.Confirmed}
}

// WorkResponseFromProto is the message as a response.
func WorkResponseFromProto(m *pb.WorkResponse) (carillon.WorkResponse, error) {
	runs, err := RunsFromProto(m.GetRuns())
	return carillon.WorkResponse{Runs: runs, Cancel: m.GetCancel(), Stale: m.GetStale(), Acks: m.GetAcks(),
		Nodes: m.GetNodes(), Drain: m.GetDrain(), Wanted: m.GetWanted(),
		Withdrawn: creditsFromProto(m.GetWithdrawn()), Ping: m.GetPing(), Confirmed: m.GetConfirmed()}, err
}
