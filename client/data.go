package client

import (
	"fmt"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// jobToProto is the job as a message; its status stays here. A job of which a message could say a part only is refused; the
// rest is for the server to judge.
func jobToProto(j carillon.Job) (*pb.Job, error) {
	if err := j.CheckForm(); err != nil {
		return nil, err
	}
	j.Status = nil
	return wire.JobToProto(&j), nil
}

func jobsToProto(jobs []carillon.Job) ([]*pb.Job, error) {
	ms := make([]*pb.Job, len(jobs))
	for i := range jobs {
		var err error
		if ms[i], err = jobToProto(jobs[i]); err != nil {
			return nil, wire.Within(fmt.Sprintf("jobs[%d]", i), err)
		}
	}
	return ms, nil
}
