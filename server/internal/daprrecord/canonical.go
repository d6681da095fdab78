package daprrecord

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// Canonical returns what makes the record the job that it is: what was asked for, when it fires next, how
// often it still does and until when, and the failed attempts of its next run. It is the same for two records
// with which a job goes on alike. The error is [ErrOver] if the job never fires again.
func (r *Record) Canonical() ([]byte, error) {
	s, err := r.schedule()
	if err != nil {
		return nil, err
	}
	next, err := r.dueNext(s)
	if err != nil {
		return nil, err
	}
	end, err := r.expires()
	if err != nil {
		return nil, err
	}
	whose := new(pb.JobMetadata)
	if err := r.Job.GetJob().GetMetadata().UnmarshalTo(whose); err != nil {
		return nil, err
	}
	o := proto.MarshalOptions{Deterministic: true}
	metadata := new(anypb.Any)
	if err := anypb.MarshalFrom(metadata, whose, o); err != nil {
		return nil, err
	}
	m := r.asked()
	spec, err := o.Marshal(&cronpb.JobSpec{Schedule: m.Schedule, DueTime: m.DueTime, Ttl: m.Ttl,
		Repeats: m.Repeats, Metadata: metadata, Payload: m.GetData(), FailurePolicy: m.GetFailurePolicy()})
	if err != nil {
		return nil, err
	}
	b := strconv.AppendQuote(nil, r.Name)
	for _, part := range [...]string{next.Format(time.RFC3339Nano), strconv.FormatUint(r.left(), 10),
		end.Format(time.RFC3339Nano), strconv.FormatUint(uint64(r.Counter.GetAttempts()), 10)} {
		b = append(append(b, ' '), part...)
	}
	return append(append(b, '\n'), spec...), nil
}
