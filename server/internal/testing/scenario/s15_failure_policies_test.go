package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// policy runs a job whose handler fails the deliveries that fail says, counted from 1, and returns when they
// came, counted from the put.
func (w *world) policy(t *testing.T, j carillon.Job, fail func(n int) bool,
	wait time.Duration) []time.Duration {
	t.Helper()
	began, n := time.Now(), 0
	w.connect("worker", hello{queues: []string{"q"}, credits: 1}, func(r carillon.Run) []carillon.Result {
		if n++; fail(n) {
			return fails(r)
		}
		return done(r)
	})
	j.Name = "job"
	w.put(j)
	sleep(wait)
	return after(began, w.deliveries("job"))
}

func always(int) bool { return true }

// first fails the first n.
func first(n int) func(int) bool { return func(i int) bool { return i <= n } }

// S15: how many deliveries each policy makes of "@every 1s × 2" and others.
func TestS15Deliveries(t *testing.T) {
	twice := func(p carillon.FailurePolicy) carillon.Job {
		return carillon.Job{Schedule: "@every 1s", Repeats: 2, Misfire: carillon.Misfire{Rule: carillon.MisfireAll},
			FailurePolicy: p}
	}
	thrice := twice(carillon.Constant(time.Millisecond).WithMaxRetries(1))
	thrice.Repeats = 3
	for name, test := range map[string]struct {
		job  carillon.Job
		fail func(n int) bool
		want int
	}{
		"drop":                    {twice(carillon.Drop()), always, 2},
		"constant 1s, 3":          {twice(carillon.Constant(time.Second).WithMaxRetries(3)), always, 8},
		"only the third succeeds": {thrice, func(n int) bool { return n != 3 }, 5},
		// two, the success of the second time, two
		"default of a schedule": {twice(carillon.FailurePolicy{}), always, 8},
		"unlimited, 99 failures": {carillon.Job{FailurePolicy: carillon.Constant(time.Second)}, first(99),
			100},
		"default of a one-shot":    {carillon.Job{}, always, 5},
		"drop of a one-shot":       {carillon.Job{FailurePolicy: carillon.Drop()}, always, 1},
		"constant 5s, 119 retries": {carillon.Job{FailurePolicy: carillon.Constant(5 * time.Second).WithMaxRetries(119)}, always, 120},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				got := w.policy(t, test.job, test.fail, time.Hour)
				if len(got) != test.want {
					t.Errorf("%d deliveries, want %d: %v", len(got), test.want, got)
				}
				if name == "constant 5s, 119 retries" && got[len(got)-1] != 595*time.Second {
					t.Errorf("they span %v, want 595 s", got[len(got)-1])
				}
			})
		})
	}
}

// S15: retries at the times of a cron.
func TestS15RetriesOnSchedule(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		time.Sleep(time.Until(time.Now().Truncate(2 * time.Second).Add(2*time.Second + 300*time.Millisecond)))
		got := w.policy(t, carillon.Job{FailurePolicy: carillon.OnSchedule("*/2 * * * * *").WithMaxRetries(3)},
			always, time.Minute)
		if len(got) != 4 {
			t.Fatalf("%d deliveries, want 4", len(got))
		}
		for _, d := range w.deliveries("job")[1:] {
			if d.At.Nanosecond() != 0 || d.At.Second()%2 != 0 {
				t.Errorf("a retry at %v", d.At)
			}
		}
	})
}

// S15: exponential with 5 attempts: gaps of 2, 4, 8 and 16 s, and no sixth.
func TestS15Exponential(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		got := w.policy(t, carillon.Job{}, always, 24*time.Hour)
		want := []time.Duration{0, 2 * time.Second, 6 * time.Second, 14 * time.Second, 30 * time.Second}
		if !slices.Equal(got, want) {
			t.Errorf("deliveries at %v, want %v", got, want)
		}
		if d := w.dead(); len(d) != 1 || len(d[0].Errors) != 5 {
			t.Errorf("dead: %+v", d)
		}
	})
}

// S15: the node dies after the second attempt of constant(30 s, 5): the third comes at its virtual time,
// neither at once nor 30 s after the restart, and the attempts go on counting.
func TestS15RetriesOverARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.work("worker", fails)
		w.put(carillon.Job{Name: "job", FailurePolicy: carillon.Constant(30 * time.Second).WithMaxRetries(5)})
		sleep(35 * time.Second)
		w.kill()
		sleep(10 * time.Second)
		w.start()
		w.work("worker", fails)
		sleep(time.Hour)
		got := after(began, w.deliveries("job"))
		want := []time.Duration{0, 30 * time.Second, 60 * time.Second, 90 * time.Second, 120 * time.Second,
			150 * time.Second}
		if !slices.Equal(got, want) {
			t.Errorf("deliveries at %v, want %v", got, want)
		}
	})
}

// S15: after a run is exhausted the next one comes at the schedule's own cadence.
func TestS15CadenceAfterExhaustion(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.work("worker", fails)
		w.put(carillon.Job{Name: "job", Schedule: "@every 10s", Repeats: 2,
			FailurePolicy: carillon.Constant(3 * time.Second).WithMaxRetries(1)})
		sleep(time.Minute)
		want := []time.Duration{10 * time.Second, 13 * time.Second, 20 * time.Second, 23 * time.Second}
		if got := after(began, w.deliveries("job")); !slices.Equal(got, want) {
			t.Errorf("deliveries at %v, want %v", got, want)
		}
		w.empty()
	})
}
