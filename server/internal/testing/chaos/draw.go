package chaos

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// namespace is where everything happens.
const namespace = carillon.DefaultNamespace

// queues are the worker queues in use.
var queues = []string{"mail", "reports", "billing"}

// dice draws what happens. Each actor has its own.
type dice struct{ *rand.Rand }

// newDice are those of one actor of a campaign.
func newDice(seed uint64, actor string) dice {
	h := fnv.New64a()
	h.Write([]byte(actor))
	return dice{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// between is a duration of [low, high).
func (d dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)))
}

// chance is true once in n times.
func (d dice) chance(n int) bool { return d.IntN(n) == 0 }

// pick is one of some.
func pick[T any](d dice, some ...T) T { return some[d.IntN(len(some))] }

// drawn is a job as it is put and as the checker reads it.
type drawn struct {
	job  carillon.Job
	spec checker.Job
}

// oneShot draws a job that runs once, soon.
func (d dice) oneShot(name, endpoint string) drawn {
	out := d.common(name, endpoint)
	in := d.between(0, 2500*time.Millisecond).Round(time.Millisecond)
	if d.chance(3) {
		at := time.Now().Add(in).UTC().Round(0)
		out.job.Due, out.spec.Due = carillon.At(at), at
	} else {
		out.job.Due, out.spec.Relative, out.spec.DueIn = carillon.In(in), true, in
	}
	return out
}

// recurring draws a job that runs every second or so.
func (d dice) recurring(name, endpoint string) drawn {
	out := d.common(name, endpoint)
	every := pick(d, 500*time.Millisecond, time.Second, time.Second, 1500*time.Millisecond, 2*time.Second,
		3*time.Second)
	out.job.Schedule = "@every " + every.String()
	if d.chance(3) {
		out.job.Schedule = "* * * * * *" // six fields: each second
	}
	out.spec.Schedule = out.job.Schedule
	return out.rules(d.IntN(24))
}

// rules gives a job the i-th of all combinations of overlap and misfire.
func (out drawn) rules(i int) drawn {
	out.job.Overlap = []carillon.Overlap{carillon.OverlapSerial, carillon.OverlapSkip, carillon.OverlapAllow,
		carillon.OverlapReplace}[i%4]
	out.job.Misfire.Rule = []carillon.MisfireRule{carillon.MisfireLatest, carillon.MisfireAll,
		carillon.MisfireSkip}[i/4%3]
	out.spec.Overlap, out.spec.Misfire = overlapWords[out.job.Overlap], misfireWords[out.job.Misfire.Rule]
	return out
}

// Jobs that nobody changes once they were put: what a receiver has seen of them has no excuse.
const (
	steadyJobs = 24 // each combination of overlap and misfire, with workers and with the endpoint
	mostRuns   = 6  // of a job with repeats
)

// steady is the i-th recurring job that nobody changes.
func (d dice) steady(i int, endpoint string) drawn {
	out := d.common(fmt.Sprintf("recurring/steady/%d", i), endpoint)
	out.aim(i < steadyJobs/2, endpoint, queues[i%len(queues)])
	out.job.Schedule = "@every " + pick(d, 600*time.Millisecond, 800*time.Millisecond, time.Second).String()
	out.spec.Schedule = out.job.Schedule
	return out.rules(i)
}

// repeated draws a recurring job that ends by itself.
func (d dice) repeated(name, endpoint string) drawn {
	out := d.recurring(name, endpoint)
	out.job.Schedule = "@every " + pick(d, 300*time.Millisecond, 500*time.Millisecond, time.Second).String()
	out.job.Repeats = uint64(2 + d.IntN(mostRuns-1))
	out.spec.Schedule, out.spec.Repeats = out.job.Schedule, out.job.Repeats
	return out
}

// common draws what every job has.
func (d dice) common(name, endpoint string) drawn {
	retries := 2 + d.IntN(6)
	interval := d.between(100*time.Millisecond, time.Second).Round(time.Millisecond)
	job := carillon.Job{
		Namespace: namespace, Name: name, Data: carillon.JSON(fmt.Sprintf("%s %016x", name, d.Uint64())),
		FailurePolicy: carillon.Constant(interval).WithMaxRetries(uint32(retries)),
		History:       carillon.History{Runs: keepRuns}, Priority: pick(d, carillon.PriorityCritical,
			carillon.PriorityHigh, carillon.PriorityNormal, carillon.PriorityLow),
	}
	spec := checker.Job{
		Payload: hashOf(job.Data.Bytes), KeepRuns: keepRuns,
		Policy: checker.Policy{Kind: "constant", Interval: interval, MaxRetries: &retries},
	}
	if d.chance(5) {
		job.FailurePolicy, spec.Policy = carillon.Drop(), checker.Policy{Kind: "drop"}
	}
	out := drawn{job, spec}
	out.aim(d.chance(3), endpoint, pick(d, queues...))
	return out
}

// aim gives a job its target.
func (out *drawn) aim(http bool, endpoint, queue string) {
	j, s := &out.job, &out.spec
	if http {
		j.Target, j.Lease, j.Timeout = carillon.HTTP(endpoint), 0, httpTimeout
		s.Queue, s.Lease, s.Timeout = "http "+endpoint, 0, httpTimeout
		return
	}
	j.Target, j.Lease, j.Timeout = carillon.WorkerQueue(queue), workerLease, workerTimeout
	s.Queue, s.Lease, s.Timeout = queue, workerLease, workerTimeout
}

// How long things last: short, so that a campaign sees many of them.
const (
	workerLease   = 2 * time.Second
	workerTimeout = 20 * time.Second
	httpTimeout   = time.Second
	keepRuns      = 10_000 // the history is to hold everything
)

// hashOf names a payload.
func hashOf(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}
