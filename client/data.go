package client

import (
	"fmt"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// jobToProto returns the job as a message, without its status. It refuses a job that a message can only
// express in part; the server validates the rest.
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
