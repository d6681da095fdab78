package sim

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// job draws a job that is put at a moment of the plan.
func (g *generator) job(at time.Duration) *checker.Job {
	g.payloads++
	j := &checker.Job{
		Payload: fmt.Sprintf("p%d", g.payloads), Lease: time.Duration(2+g.r.IntN(6)) * time.Second, KeepRuns: 1000,
		Priority: pick(g.r, "", "critical", "high", "low"), Queue: pick(g.r,
			queues...), Policy: g.policy(), Timeout: 20 * time.Second,
	}
	if g.FireCritical && !g.oneIn(4) {
		j.Priority = "critical"
	}
	if g.HTTP && g.oneIn(4) {
		j.Queue = "http://" + pick(g.r, g.plan.Endpoints...) + "/run"
		j.Lease = 0
		// not whole seconds: it would end when the next run is due
		j.Timeout = g.between(2*time.Second, 6*time.Second)
	}
	if g.oneIn(2) {
		g.oneShot(j, at)
	} else {
		g.recurring(j)
	}
	j.Paused = g.oneIn(20)
	if g.limited() {
		j.ConcurrencyKey = "licence"
	}
	if g.oneIn(15) && j.Queue[0] != 'h' {
		j.After = []string{fmt.Sprintf("c%d/j%d", g.r.IntN(4), g.r.IntN(jobsPerClient))}
	}
	return j
}

func (g *generator) oneShot(j *checker.Job, at time.Duration) {
	switch g.r.IntN(4) {
	case 0:
	case 1:
		j.Due = g.plan.Start.Add(at + g.between(-5*time.Second, 20*time.Second)).UTC()
	default:
		j.Relative, j.DueIn = true, g.between(0, 20*time.Second)
	}
}

// recurring draws a schedule and what goes with it.
func (g *generator) recurring(j *checker.Job) {
	switch x := g.r.IntN(6); {
	case x == 0 && g.Crons, g.Change && x > 1:
		j.Schedule, j.Zone, j.Literal = g.cron(), pick(g.r, zones...), g.oneIn(6)
	case x == 1:
		j.Schedule = fmt.Sprintf("R%d/PT%dS", 2+g.r.IntN(5), 1+g.r.IntN(6))
	default:
		j.Schedule = fmt.Sprintf("@every %ds", 1+g.r.IntN(9))
	}
	if g.oneIn(5) {
		j.Repeats = uint64(1 + g.r.IntN(6))
	}
	if g.oneIn(6) {
		j.Relative, j.DueIn = true, g.between(0, 8*time.Second)
	}
	if g.oneIn(8) {
		j.TTL = g.between(10*time.Second, 30*time.Second)
	}
	if g.oneIn(8) {
		j.Jitter = g.between(time.Millisecond, 900*time.Millisecond)
	}
	j.Overlap = pick(g.r, "", "", "skip", "allow", "replace")
	j.Misfire = pick(g.r, "", "all", "skip")
	if g.Dated && g.oneIn(2) {
		j.Off = g.plan.Off
	}
	if g.oneIn(8) {
		j.CatchUpLimit = 1 + g.r.IntN(5)
	}
}

// cron draws one whose times lie within the run, in zones whose clocks change then.
func (g *generator) cron() string {
	switch g.r.IntN(4) {
	case 0:
		return fmt.Sprintf("*/%d * * * * *", pick(g.r, 2, 5, 7, 10))
	case 1:
		return fmt.Sprintf("%d,%d * * * * *", g.r.IntN(30), 30+g.r.IntN(30))
	case 2: // a fixed time in what a gap swallows, or what comes twice
		return pick(g.r, "0 2 * * *", "30 2 * * *", "0 30 2 * * *", "15 0 3 * * *", "*/10 0 3 * * *",
			"59 59 1 * * *", "5 0 2 * * *")
	}
	return fmt.Sprintf("%d/3 * * * * *", g.r.IntN(5))
}

func (g *generator) policy() checker.Policy {
	retries := g.r.IntN(4)
	p := checker.Policy{MaxRetries: &retries, OnExhausted: pick(g.r, "", "", "dead", "drop")}
	switch g.r.IntN(5) {
	case 0:
		p.Kind, p.Initial, p.Factor, p.Max = "exponential", g.between(300*time.Millisecond,
			time.Second), 2, 4*time.Second
		if g.oneIn(2) {
			p.Jitter = 500 * time.Millisecond
		}
	case 1:
		return checker.Policy{Kind: "drop"}
	default:
		p.Kind, p.Interval = "constant", g.between(500*time.Millisecond, 4*time.Second)
		if chance := p.Interval % 10; chance < 3 { // no draw of its own: all others stay as they were
			p.PauseAfter = uint32(chance)
		}
	}
	return p
}

// limited draws whether a job has the key of the limit.
func (g *generator) limited() bool {
	if g.Limited != nil || g.Rated {
		return g.oneIn(2)
	}
	return g.oneIn(8)
}

// limit draws a limit.
func (g *generator) limit() int {
	if g.Limited != nil {
		return pick(g.r, g.Limited...)
	}
	return 1 + g.r.IntN(3)
}
