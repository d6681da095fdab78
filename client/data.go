package client

import (
	"fmt"
	"math"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// jobToProto is the job as a message; its status stays here.
func jobToProto(j carillon.Job) (*pb.Job, error) {
	if err := checkData(j.Data); err != nil {
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

// checkData refuses a payload that [carillon.JSON] could not encode: that it could not does not cross the wire. The rest of
// a job is for the server to judge.
func checkData(d carillon.Data) error {
	if d.Bytes != nil {
		return nil
	}
	probe := carillon.Job{Name: "data", Target: carillon.WorkerQueue("data"), Data: d}
	return probe.Validate(carillon.Limits{Payload: math.MaxInt})
}
