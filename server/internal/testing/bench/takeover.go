package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Takeover measures how long the partitions of a node are without an owner when it ends: goal P10. Jobs are
// due at a steady rate all the while.
type Takeover struct {
	Fleet   *Fleet  // at least two nodes
	Rate    float64 // jobs a second; default 500
	Orderly bool    // SIGTERM instead of SIGKILL
}

// Phases is where the time of a takeover goes, in milliseconds from the signal; the first is the earliest
// partition's, the last the latest's.
type Phases struct {
	Partitions int     `json:"partitions"`
	LeaseEnds  float64 `json:"lease_ends_ms"` // of the latest partition, by the store's clock
	FirstClaim float64 `json:"first_claim_ms"`
	LastClaim  float64 `json:"last_claim_ms"`
	FirstRun   float64 `json:"first_run_ms"`      // of a job that was due after the signal
	LastRun    float64 `json:"last_first_run_ms"` // until each partition has had one
	LoadAndRun float64 `json:"claim_to_run_p50_ms"`
}

// String is the phases for people.
func (p *Phases) String() string {
	return fmt.Sprintf("%d partitions: lease over after %.0f ms, claimed after %.0f to %.0f ms, first runs after %.0f to %.0f ms, "+
		"%.1f ms from claim to run", p.Partitions, p.LeaseEnds, p.FirstClaim, p.LastClaim, p.FirstRun,
		p.LastRun, p.LoadAndRun)
}

// claimed is what a partition went through.
type claimed struct {
	lease, claim, run time.Time
}

// arrivalsOf notes the first run of each partition that was due after an instant.
type arrivalsOf struct {
	*ledger
	parts int

	mu    sync.Mutex
	since time.Time
	first map[int]time.Time
	last  map[int]time.Time // due, of the run that came first
}

func (a *arrivalsOf) receive(run *carillon.Run, at time.Time) (time.Duration, bool) {
	a.mu.Lock()
	p := store.PartitionOf(carillon.Key{Namespace: run.Namespace, Name: run.Job}, a.parts)
	if _, ok := a.first[p]; !ok && !a.since.IsZero() && run.Scheduled.After(a.since) {
		a.first[p], a.last[p] = at, run.Scheduled
	}
	a.mu.Unlock()
	return a.ledger.receive(run, at)
}

// takeoverSpan is how long jobs fall due, and takeoverAt when the node ends.
const (
	takeoverSpan = 16 * time.Second
	takeoverAt   = 4 * time.Second
)

// Run measures.
func (t Takeover) Run(ctx context.Context, b *Bench) (Result, error) {
	if t.Rate <= 0 {
		t.Rate = 500
	}
	status, err := b.cluster(ctx)
	if err != nil {
		return Result{}, err
	}
	n := int(t.Rate * takeoverSpan.Seconds())
	prefix := newPrefix()
	seen := &arrivalsOf{ledger: newLedger(prefix, n), parts: len(status.Partitions),
		first: map[int]time.Time{}, last: map[int]time.Time{}}
	work, err := b.consume(ctx, prefix, workerOptions{}.withDefaults(), seen)
	if err != nil {
		return Result{}, err
	}
	defer work.close()
	start := time.Now().Add(loadTime(n) + 3*time.Second)
	due := func(i int) time.Time { return start.Add(time.Duration(float64(i) / t.Rate * float64(time.Second))) }
	if err := b.preloadOneShots(ctx, seen.ledger, prefix, defaultPayload, due); err != nil {
		return Result{}, err
	}
	if err := pause(ctx, time.Until(start.Add(takeoverAt))); err != nil {
		return Result{}, err
	}
	r := Result{Bench: "takeover", Operations: int64(n),
		Parameters: fmt.Sprintf("%d nodes, %.0f runs/s, %s", len(t.Fleet.Servers), t.Rate, t.how())}
	if r.Phases, err = t.end(ctx, b, seen); err != nil {
		return r, err
	}
	until(ctx, takeoverSpan+time.Minute, func() bool { return seen.delivered.Load() >= int64(n) })
	r.took(time.Since(start))
	r.Lateness = work.late.quantiles()
	r.Ledger = seen.verdict()
	r.Notes = append(r.Notes, fmt.Sprintf("%d runs came twice, which only those may that were in flight when the node was killed", r.Ledger.Doubled))
	if !t.Orderly {
		r.Ledger.Doubled = 0
	}
	return r, nil
}

func (t Takeover) how() string {
	if t.Orderly {
		return "SIGTERM"
	}
	return "SIGKILL"
}

// end ends the last node and watches who takes its partitions.
func (t Takeover) end(ctx context.Context, b *Bench, seen *arrivalsOf) (*Phases, error) {
	before, err := b.cluster(ctx)
	if err != nil {
		return nil, err
	}
	victim := t.Fleet.Servers[len(t.Fleet.Servers)-1]
	parts := map[int]*claimed{}
	for _, p := range before.Partitions {
		if p.Node == victim.program.Name {
			parts[p.Partition] = &claimed{lease: p.Until}
		}
	}
	if len(parts) == 0 {
		return nil, errors.New("the node that is to end owns nothing")
	}
	ended := time.Now()
	seen.mu.Lock()
	seen.since = ended
	seen.mu.Unlock()
	if t.Orderly {
		go func() { _ = victim.Stop() }() // Close of the fleet waits for it
	} else if err := victim.Kill(); err != nil {
		return nil, err
	}
	err = t.watch(ctx, b, victim.program.Name, parts)
	if err != nil {
		return nil, err
	}
	if !until(ctx, time.Minute, func() bool { return seen.ran(parts) }) {
		return nil, errors.New("not every partition has fired again within a minute")
	}
	return phases(parts, ended), nil
}

// watch asks a node that lives who owns what, until all partitions have another owner.
func (t Takeover) watch(ctx context.Context, b *Bench, victim string, parts map[int]*claimed) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for left := len(parts); left > 0; {
		status, err := b.cluster(ctx)
		if err != nil {
			return err
		}
		for _, p := range status.Partitions {
			if c := parts[p.Partition]; c != nil && c.claim.IsZero() && p.Node != victim && p.Node != "" {
				c.claim = time.Now()
				left--
			}
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// ran reports whether each of the partitions has fired again.
func (a *arrivalsOf) ran(parts map[int]*claimed) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, c := range parts {
		if c.run = a.first[p]; c.run.IsZero() {
			return false
		}
	}
	return true
}

// phases sums up.
func phases(parts map[int]*claimed, ended time.Time) *Phases {
	var lease, claim, run, between []float64
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for _, c := range parts {
		lease = append(lease, ms(c.lease.Sub(ended)))
		claim = append(claim, ms(c.claim.Sub(ended)))
		run = append(run, ms(c.run.Sub(ended)))
		between = append(between, ms(c.run.Sub(c.claim)))
	}
	slices.Sort(between)
	return &Phases{Partitions: len(parts), LeaseEnds: slices.Max(lease), FirstClaim: slices.Min(claim),
		LastClaim: slices.Max(claim),
		FirstRun:  slices.Min(run), LastRun: slices.Max(run), LoadAndRun: between[len(between)/2]}
}

// clustered is a connection that knows of a cluster.
type clustered interface {
	ClusterStatus(ctx context.Context) (carillon.ClusterStatus, error)
}

// cluster asks the first node for the nodes and what they own.
func (b *Bench) cluster(ctx context.Context) (carillon.ClusterStatus, error) {
	c, ok := b.conn(0).(clustered)
	if !ok {
		return carillon.ClusterStatus{}, errors.New("this connection knows of no cluster")
	}
	return c.ClusterStatus(ctx)
}
