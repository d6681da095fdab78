package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/carillonhq/carillon"
)

// HTTP measures callbacks to a trivial server in this process: n one-shots that are all due at the same
// instant.
type HTTP struct {
	Jobs  int // default 20,000
	Hosts int // servers, each a host with a limit of its own; default 1
}

// receiver is a trivial server that enters what it is called for in a ledger.
type receiver struct {
	ledger *ledger
	late   *histogram
}

func (s *receiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	if late, ok := s.ledger.deliver(req.Header.Get("Ce-Subject"), time.Now()); ok {
		s.late.record(late)
	}
}

// Run measures.
func (h HTTP) Run(ctx context.Context, b *Bench) (Result, error) {
	if h.Jobs <= 0 {
		h.Jobs = 20_000
	}
	h.Hosts = max(1, h.Hosts)
	prefix := newPrefix()
	s := &receiver{ledger: newLedger(prefix, h.Jobs), late: newHistogram()}
	urls, stop, err := s.listen(h.Hosts)
	if err != nil {
		return Result{}, err
	}
	defer stop()
	due := time.Now().Add(loadTime(h.Jobs) + 2*time.Second).Truncate(time.Millisecond)
	err = b.preload(ctx, h.Jobs, 0, func(i int) carillon.Job {
		s.ledger.plan(i, due)
		return carillon.Job{Namespace: b.cfg.Namespace, Name: s.ledger.name(i), Due: carillon.At(due),
			Target: carillon.HTTP(urls[i%len(urls)]),
			Data:   carillon.JSON(i)}
	}, s.ledger.ack)
	if err != nil {
		return Result{}, err
	}
	return h.measure(ctx, b, s, due)
}

// listen starts n servers on loopback.
func (s *receiver) listen(n int) (urls []string, stop func(), err error) {
	var servers []*http.Server
	stop = func() {
		for _, server := range servers {
			_ = server.Close() // nobody is served any more
		}
	}
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return nil, nil, err
		}
		server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
		go server.Serve(l) //nolint:errcheck // it ends when stop closes it
		servers = append(servers, server)
		urls = append(urls, "http://"+l.Addr().String()+"/")
	}
	return urls, stop, nil
}

func (h HTTP) measure(ctx context.Context, b *Bench, s *receiver, due time.Time) (Result, error) {
	r := Result{Bench: "http", Operations: int64(h.Jobs),
		Parameters: fmt.Sprintf("%d callbacks at one instant, %d hosts", h.Jobs, h.Hosts)}
	if err := pause(ctx, time.Until(due.Add(-100*time.Millisecond))); err != nil {
		return r, err
	}
	w, err := b.begin(ctx, r.Bench)
	if err != nil {
		return r, err
	}
	defer w.close()
	stop := b.watch("callbacks", int64(h.Jobs), s.ledger.delivered.Load)
	until(ctx, time.Minute+time.Duration(h.Jobs)*time.Millisecond,
		func() bool { return s.ledger.delivered.Load() >= int64(h.Jobs) })
	r.took(time.Since(due))
	stop()
	if err := w.end(&r); err != nil {
		return r, err
	}
	r.Span = s.ledger.span().Seconds()
	r.Lateness = s.late.quantiles()
	gone := until(ctx, 10*time.Second, func() bool { return b.empty(ctx, s.ledger.prefix) })
	r.Ledger = s.ledger.verdict()
	if gone {
		return r, nil
	}
	err = b.mustBeGone(ctx, s.ledger.prefix, &r)
	return r, err
}

// empty reports whether no job of the prefix is left.
func (b *Bench) empty(ctx context.Context, prefix string) bool {
	page, err := b.conn(0).ListJobs(ctx, carillon.JobQuery{Namespace: b.cfg.Namespace,
		Prefix: prefix, PageSize: 1})
	return err == nil && len(page.Jobs) == 0
}
