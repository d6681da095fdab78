package wire

import (
	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// policyToProto is the policy as a message; the zero policy is absent.
func policyToProto(p *carillon.FailurePolicy) *pb.FailurePolicy {
	if *p == (carillon.FailurePolicy{}) {
		return nil
	}
	m := &pb.FailurePolicy{OnExhausted: pb.OnExhausted(p.OnExhausted), PauseAfter: p.PauseAfter}
	switch p.Kind {
	case carillon.PolicyDrop:
		m.Kind = &pb.FailurePolicy_Drop{Drop: &pb.DropPolicy{}}
	case carillon.PolicyConstant:
		m.Kind = &pb.FailurePolicy_Constant{Constant: &pb.ConstantPolicy{
			Interval: durationText(p.Interval), MaxRetries: p.MaxRetries}}
	case carillon.PolicySchedule:
		m.Kind = &pb.FailurePolicy_Schedule{Schedule: &pb.SchedulePolicy{Cron: p.Schedule,
			MaxRetries: p.MaxRetries}}
	case carillon.PolicyExponential:
		m.Kind = &pb.FailurePolicy_Exponential{Exponential: &pb.ExponentialPolicy{
			Initial: durationText(p.Initial), Factor: p.Factor, Max: durationText(p.Max),
			Jitter: durationText(p.Jitter), MaxRetries: p.MaxRetries}}
	case carillon.PolicyDefault: // what all forms have, alone
	}
	return m
}

// failurePolicy is the message as a policy.
func (f *first) failurePolicy(m *pb.FailurePolicy) carillon.FailurePolicy {
	var p carillon.FailurePolicy
	switch k := m.GetKind().(type) {
	case *pb.FailurePolicy_Drop:
		p = carillon.Drop()
	case *pb.FailurePolicy_Constant:
		p = carillon.Constant(f.duration(k.Constant.GetInterval(), "failure_policy.constant.interval"))
		p.MaxRetries = k.Constant.MaxRetries
	case *pb.FailurePolicy_Schedule:
		p = carillon.OnSchedule(k.Schedule.GetCron())
		p.MaxRetries = k.Schedule.MaxRetries
	case *pb.FailurePolicy_Exponential:
		p = f.exponential(k.Exponential)
	}
	p.PauseAfter = m.GetPauseAfter()
	const field = "failure_policy.on_exhausted"
	if _, ok := pb.OnExhausted_name[int32(m.GetOnExhausted())]; !ok {
		f.keep(invalid(field, "%d is no value of it", m.GetOnExhausted()))
		return p
	}
	p.OnExhausted = carillon.OnExhausted(m.GetOnExhausted())
	return p
}

func (f *first) exponential(m *pb.ExponentialPolicy) carillon.FailurePolicy {
	const at = "failure_policy.exponential."
	return carillon.FailurePolicy{
		Kind:       carillon.PolicyExponential,
		Initial:    f.duration(m.GetInitial(), at+"initial"),
		Factor:     m.GetFactor(),
		Max:        f.duration(m.GetMax(), at+"max"),
		Jitter:     f.duration(m.GetJitter(), at+"jitter"),
		MaxRetries: m.MaxRetries,
	}
}
