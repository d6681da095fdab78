package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store/serverclock"
)

// clock is the store's clock. etcd has none that can be asked by its protocol, but each member also answers
// by HTTP, and its answers have a date, which is cut to the second. One that is asked where the middle of the
// bounds expects the next second to begin halves them: after ten answers, they are some milliseconds apart.
type clock struct {
	*serverclock.Clock
	http    *http.Client
	end     context.CancelFunc
	members sync.WaitGroup
}

const (
	// dateTimeout is how long an answer of a member may take.
	dateTimeout = 2 * time.Second
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
	c := &clock{Clock: serverclock.New(o.Now), http: &http.Client{Transport: transport, Timeout: dateTimeout},
		end: end}
	var first sync.WaitGroup
	failed := make([]error, len(o.Addresses))
	for i, endpoint := range o.endpoints() {
		first.Go(func() { failed[i] = c.ask(ctx, endpoint) })
	}
	first.Wait()
	if !c.Known() {
		o.Log.Warn("no member of etcd tells its time: this node's own clock is used; keep the clocks of all nodes together",
			"error", errors.Join(failed...))
	}
	for _, endpoint := range o.endpoints() {
		c.members.Go(func() {
			c.Follow(life, func() time.Duration { return nextDate(c.Clock, endpoint) },
				func(ctx context.Context) error { return c.ask(ctx, endpoint) })
		})
	}
	return c
}

// close ends the clock's goroutines.
func (c *clock) close() {
	c.end()
	c.members.Wait()
	c.http.CloseIdleConnections()
}

// nextDate is when to ask a member.
func nextDate(c *serverclock.Clock, endpoint string) time.Duration {
	low, high, known := c.Bounds(endpoint)
	if !known {
		return datePause
	}
	// the next second of the member, if the middle of the bounds is right
	theirs := c.Own().Add((low + high) / 2)
	second := theirs.Truncate(time.Second).Add(time.Second).Sub(theirs)
	switch {
	case high-low > coarse:
		return min(second, coarse/2)
	case high-low > fine:
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
	asked := c.Own()
	answer, err := c.http.Do(r)
	answered := c.Own()
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
	c.Answer(endpoint, asked, answered, date, time.Second)
	return nil
}
