package chaos

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/checker"
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
	every := pick(d, time.Second, 1500*time.Millisecond, 2*time.Second, 3*time.Second)
	out.job.Schedule = "@every " + every.String()
	if d.chance(3) {
		out.job.Schedule = "* * * * * *" // six fields: each second
	}
	out.spec.Schedule = out.job.Schedule
	switch d.IntN(6) {
	case 0, 1:
		out.job.Overlap, out.spec.Overlap = carillon.OverlapSkip, "skip"
	case 2:
		out.job.Overlap, out.spec.Overlap = carillon.OverlapAllow, "allow"
	case 3:
		out.job.Overlap, out.spec.Overlap = carillon.OverlapReplace, "replace"
	}
	switch d.IntN(3) {
	case 0:
		out.job.Misfire, out.spec.Misfire = carillon.MisfireAll, "all"
	case 1:
		out.job.Misfire, out.spec.Misfire = carillon.MisfireSkip, "skip"
	}
	return out
}

// common draws what every job has.
func (d dice) common(name, endpoint string) drawn {
	retries := 2 + d.IntN(6)
	interval := d.between(100*time.Millisecond, time.Second).Round(time.Millisecond)
	job := carillon.Job{
		Namespace: namespace, Name: name, Data: carillon.JSON(fmt.Sprintf("%s %016x", name, d.Uint64())),
		FailurePolicy: carillon.Constant(interval).WithMaxRetries(uint32(retries)), History: carillon.History{Runs: keepRuns},
		Class: pick(d, carillon.ClassCritical, carillon.ClassHigh, carillon.ClassNormal, carillon.ClassLow),
	}
	spec := checker.Job{
		Payload: hashOf(job.Data.Bytes), KeepRuns: keepRuns,
		Policy: checker.Policy{Kind: "constant", Interval: interval, MaxRetries: &retries},
	}
	if d.chance(3) {
		job.Target, job.Timeout = carillon.HTTP(endpoint), httpTimeout
		spec.Queue, spec.Timeout = "http "+endpoint, httpTimeout
		return drawn{job, spec}
	}
	queue := pick(d, queues...)
	job.Target, job.Lease, job.Timeout = carillon.WorkerQueue(queue), workerLease, workerTimeout
	spec.Queue, spec.Lease, spec.Timeout = queue, workerLease, workerTimeout
	return drawn{job, spec}
}

// How long things last: short, so that a campaign sees many of them.
const (
	workerLease   = 2 * time.Second
	workerTimeout = 20 * time.Second
	httpTimeout   = time.Second
	keepRuns      = 1000 // the history is to hold everything
)

// hashOf names a payload.
func hashOf(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}
