package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// bench is a machine whose batches are durable as soon as they are returned, so that only the machine is
// measured.
type bench struct {
	b   *testing.B
	m   *partition.Machine
	now int64

	lineup []delivery.Waiting
}

// benchKey authenticates the tokens of benchmarks.
var benchKey = make([]byte, 32)

func newBench(b *testing.B) *bench {
	m, _, err := partition.Open(partition.Config{Term: store.Term{Epoch: 1, Nonce: 2}, MACKey: benchKey,
		Since: epoch}, &partition.Snapshot{})
	if err != nil {
		b.Fatal(err)
	}
	r := &bench{b: b, m: m, now: epoch}
	r.round()
	return r
}

// round does what a round of the engine does with the machine, over an empty store.
func (r *bench) round() {
	r.m.Tick(r.now)
	r.m.Window.Needs(64)
	for q, ok := r.m.Window.WantDue(r.now); ok; q, ok = r.m.Window.WantDue(r.now) {
		r.m.Window.Loaded(q, nil, r.now)
	}
	r.m.Tick(r.now)
	r.m.Attempts.Granted(nil, nil, r.now)
	r.lineup = r.m.Queues.AppendParked(r.m.Window.AppendWaiting(r.lineup[:0], r.now))
	r.m.Permits.ReturnUnused()
	r.m.Attempts.Cancels()
	r.m.Dependencies.Notices(r.now, 100)
	r.m.Stats()
	r.m.NextWake()
	r.commit()
}

func (r *bench) commit() {
	for b, seq := r.m.Batch(); b != nil; b, seq = r.m.Batch() {
		r.m.Committed(seq, r.now)
	}
}

// put puts a job of about the size of a reminder.
func (r *bench) put(job carillon.Job) {
	r.m.Begin()
	if _, err := r.m.Jobs.Put(r.now, message.PutRequest{Job: &job}); err != nil {
		r.b.Fatal(err)
	}
}

// fire hands out what is due and reports each attempt as a success.
func (r *bench) fire(want int) {
	r.round()
	done := 0
	for _, w := range r.lineup {
		for w.N > 0 {
			ds, _ := r.m.Deliver(nil, r.now, w.Queue, min(w.N, 256), false, nil)
			w.N -= len(ds)
			done += len(ds)
			for i := range ds {
				r.succeed(ds[i].Run.Token)
			}
		}
	}
	r.round()
	if done != want {
		r.b.Fatalf("%d runs of %d", done, want)
	}
}

func (r *bench) succeed(token string) {
	tok, err := message.ParseToken(token, benchKey)
	if err != nil {
		r.b.Fatal(err)
	}
	report := delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeSuccess}}
	if v := r.m.Report(r.now, tok, &report); v != partition.Accepted {
		r.b.Fatal(v)
	}
}

// herd is the number of jobs in a machine of these benchmarks.
const herd = 1000

func benchJobs() []carillon.Job {
	jobs := make([]carillon.Job, herd)
	for i := range jobs {
		jobs[i] = carillon.Job{Namespace: "default", Name: fmt.Sprintf("reminders/%06d", i),
			Target: carillon.WorkerQueue("q"), Data: carillon.Bytes(make([]byte, 100), "application/json")}
	}
	return jobs
}

// BenchmarkPutOneShot puts far-future one-shots, each in a batch of its own.
func BenchmarkPutOneShot(b *testing.B) {
	r, jobs := newBench(b), benchJobs()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		j := &jobs[i%herd]
		j.Due = carillon.WhenText("2030-01-01T00:00:00Z")
		r.put(*j)
		r.commit()
	}
}

// BenchmarkFireOneShot fires and finishes one-shots, a thousand at a time. The puts are not measured.
func BenchmarkFireOneShot(b *testing.B) {
	r, jobs := newBench(b), benchJobs()
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += herd {
		n := min(herd, b.N-done)
		b.StopTimer()
		for i := range jobs[:n] {
			r.put(jobs[i])
		}
		r.commit()
		b.StartTimer()
		r.now += int64(time.Second)
		r.fire(n)
	}
}

// BenchmarkFireRecurring fires and finishes recurring jobs, a thousand at a time.
func BenchmarkFireRecurring(b *testing.B) {
	for _, schedule := range []string{"@every 1s", "* * * * * *"} {
		b.Run(schedule, func(b *testing.B) {
			r, jobs := newBench(b), benchJobs()
			for i := range jobs {
				jobs[i].Schedule = schedule
				r.put(jobs[i])
			}
			r.commit()
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += herd {
				r.now += int64(time.Second)
				r.fire(herd)
			}
		})
	}
}

// BenchmarkIdleRound is a round of a partition with jobs in which nothing happens.
func BenchmarkIdleRound(b *testing.B) {
	r, jobs := newBench(b), benchJobs()
	for i := range jobs {
		jobs[i].Schedule = "@every 10m"
		r.put(jobs[i])
	}
	r.commit()
	b.ReportAllocs()
	for b.Loop() {
		r.round()
	}
}

func BenchmarkToken(b *testing.B) {
	key := carillon.Key{Namespace: "default", Name: "reminders/42"}
	tok := message.Token{
		Grant: store.Grant{Term: store.Term{Epoch: 7, Nonce: 1 << 60}, Generation: 1}, Attempt: 1,
		Run: store.RunID{UID: store.NewUID(key, [8]byte{1, 2, 3}), Scheduled: epoch},
	}
	text := tok.Sign(benchKey)
	b.Run("Sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = tok.Sign(benchKey)
		}
	})
	b.Run("Parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := message.ParseToken(text, benchKey); err != nil {
				b.Fatal(err)
			}
		}
	})
}
