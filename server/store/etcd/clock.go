package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// clock is the store's clock. etcd has none that can be asked by its protocol, but each member also answers
// by HTTP, and its answers have a date, which is cut to the second:
//
//	this node's clock  ──────┬──────────────────────┬─────▶
//	                         asked at t0            answered at t1
//	the member's clock       somewhere here it was within [date, date+1s)
//
// So the member's clock is ahead of this node's by at least date−t1 and less than date+1s−t0. Each answer
// bounds it, and one that comes where the middle of the bounds expects the next second to begin halves them.
// After ten, they are some milliseconds apart.
//
// This node's own clock is taken for right as far as the bounds allow it: where the machines' clocks are kept
// by NTP, nothing is corrected, and one that is wrong by more is. Of several members the median counts, so
// that one with a wrong clock does not matter.
type clock struct {
	now     func() time.Time
	log     store.Logger
	http    *http.Client
	end     context.CancelFunc
	members sync.WaitGroup

	mu     sync.Mutex
	bounds map[string]bounds // by endpoint, of those that have answered
}

// bounds are how far a member's clock is ahead of this node's.
type bounds struct {
	low, high time.Duration
	at        time.Time // when, by this node's clock
}

const (
	// dateTimeout is how long an answer of a member may take.
	dateTimeout = 2 * time.Second
	// driftParts bounds how fast two clocks drift apart: one part in so many, as NTP corrects a clock at
	// most.
	driftParts = 2000
	// fine is how close the bounds are when there is no hurry any more.
	fine = 5 * time.Millisecond
	// datePause is how long a member is not asked then.
	datePause = 10 * time.Second
	// coarse is how close the bounds are where a second's beginning is waited for.
	coarse = 150 * time.Millisecond
)

// newClock makes a clock that has asked each of the members once.
func newClock(ctx context.Context, o *Options) *clock {
	transport := &http.Transport{TLSClientConfig: o.TLS.Clone(), MaxIdleConnsPerHost: 1, Proxy: nil}
	if o.TLS == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	c := &clock{now: o.Now, log: o.Log, http: &http.Client{Transport: transport, Timeout: dateTimeout}, end: end,
		bounds: map[string]bounds{}}
	var first sync.WaitGroup
	failed := make([]error, len(o.Addresses))
	for i, endpoint := range o.endpoints() {
		first.Go(func() { failed[i] = c.ask(ctx, endpoint) })
	}
	first.Wait()
	if len(c.bounds) == 0 {
		c.log.Warn("no member of etcd tells its time: this node's own clock is used; keep the clocks of all nodes together",
			"error", errors.Join(failed...))
	}
	for _, endpoint := range o.endpoints() {
		c.members.Go(func() { c.follow(life, endpoint) })
	}
	return c
}

// close ends the clock's goroutines.
func (c *clock) close() {
	c.end()
	c.members.Wait()
	c.http.CloseIdleConnections()
}

// time is the store's time.
func (c *clock) time() time.Time { return c.now().Add(c.ahead()) }

// ahead is how far the store's clock is ahead of this node's.
func (c *clock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bounds) == 0 {
		return 0
	}
	all := make([]time.Duration, 0, len(c.bounds))
	for _, b := range c.bounds {
		all = append(all, min(max(b.low, 0), b.high))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// follow asks a member again and again.
func (c *clock) follow(ctx context.Context, endpoint string) {
	for {
		next := time.NewTimer(c.next(endpoint))
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return
		}
		_ = c.ask(ctx, endpoint) // a member that is away tells nothing; what is known of it stays
	}
}

// next is when to ask a member.
func (c *clock) next(endpoint string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, known := c.bounds[endpoint]
	if !known {
		return datePause
	}
	// the next second of the member, if the middle of the bounds is right
	theirs := c.now().Add((b.low + b.high) / 2)
	second := theirs.Truncate(time.Second).Add(time.Second).Sub(theirs)
	switch {
	case b.high-b.low > coarse:
		return min(second, coarse/2)
	case b.high-b.low > fine:
		return second
	}
	return second + datePause
}

// ask asks a member for its date.
func (c *clock) ask(ctx context.Context, endpoint string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/version", http.NoBody)
	if err != nil {
		return err
	}
	asked := c.now()
	answer, err := c.http.Do(r)
	answered := c.now()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can be used again
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return fmt.Errorf("the date of %s: %w", endpoint, err)
	}
	c.answer(endpoint, asked, answered, date)
	return nil
}

// answer takes what an answer says together with what was known. If the two contradict each other, a clock
// has been set.
func (c *clock) answer(endpoint string, asked, answered, date time.Time) {
	b := bounds{low: date.Sub(answered), high: date.Add(time.Second).Sub(asked), at: answered}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, known := c.bounds[endpoint]; known {
		drift := max(b.at.Sub(old.at), 0) / driftParts
		low, high := max(b.low, old.low-drift), min(b.high, old.high+drift)
		if low <= high {
			b.low, b.high = low, high
		}
	}
	c.bounds[endpoint] = b
}
