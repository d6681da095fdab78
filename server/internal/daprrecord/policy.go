package daprrecord

import (
	"encoding/base64"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillonhq/carillon"
	common "github.com/carillonhq/carillon/api/dapr/proto/common/v1"
)

// What Dapr's scheduler does if a job has no failure policy.
const (
	defaultInterval = time.Second
	defaultRetries  = 3
)

// setPolicy sets what follows a failure. A pause that is negative or without end, and retries beyond
// counting, become the nearest that Carillon knows.
func setPolicy(job *carillon.Job, m *common.JobFailurePolicy) {
	p := carillon.Constant(defaultInterval).WithMaxRetries(defaultRetries)
	switch of := m.GetPolicy().(type) {
	case *common.JobFailurePolicy_Drop:
		p = carillon.Drop()
	case *common.JobFailurePolicy_Constant:
		p = constantOf(of.Constant)
	default:
		m = nil
	}
	p.OnExhausted = carillon.ExhaustedDrop
	job.FailurePolicy = p
	if m == nil || proto.Equal(m, plainPolicy(p)) {
		return
	}
	if b, err := proto.Marshal(m); err == nil { // what was received can be encoded
		keep(job, writtenPolicy, policyText(p), base64.StdEncoding.EncodeToString(b))
	}
}

// constantOf is a constant policy. Without a pause and without an end it pauses for a nanosecond.
func constantOf(m *common.JobFailurePolicyConstant) carillon.FailurePolicy {
	p := carillon.Constant(min(max(m.GetInterval().AsDuration(), 0), carillon.MaxSpan))
	if m != nil && m.MaxRetries != nil {
		return p.WithMaxRetries(min(m.GetMaxRetries(), carillon.MaxRetries))
	}
	p.Interval = max(p.Interval, 1)
	return p
}

// policyToDapr is a job's policy as its sidecar gave it; nil if it has one that Dapr's protocol does not
// know.
func policyToDapr(job *carillon.Job) *common.JobFailurePolicy {
	if text, ok := written(job, writtenPolicy, policyText(job.FailurePolicy)); ok {
		m := new(common.JobFailurePolicy)
		if b, err := base64.StdEncoding.DecodeString(text); err == nil && proto.Unmarshal(b, m) == nil {
			return m
		}
	}
	return plainPolicy(job.FailurePolicy.Resolve(job.Recurring()))
}

// plainPolicy is a policy in the words of Dapr's protocol; nil if it has none.
func plainPolicy(p carillon.FailurePolicy) *common.JobFailurePolicy {
	switch p.Kind {
	case carillon.PolicyDrop:
		return &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Drop{Drop: &common.JobFailurePolicyDrop{}}}
	case carillon.PolicyConstant:
		constant := &common.JobFailurePolicyConstant{
			Interval: durationpb.New(p.Interval), MaxRetries: p.MaxRetries,
		}
		return &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Constant{Constant: constant}}
	default:
		return nil
	}
}

// policyText tells a policy from others.
func policyText(p carillon.FailurePolicy) string {
	if p.MaxRetries == nil {
		return fmt.Sprintf("%v %v", p.Kind, p.Interval)
	}
	return fmt.Sprintf("%v %v %d", p.Kind, p.Interval, *p.MaxRetries)
}
