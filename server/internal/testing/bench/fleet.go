package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/link"
)

// Fleet is several nodes on one store, each in a process of its own.
type Fleet struct {
	Servers []*Server

	link *link.Link // to the store; nil: nodes reach it directly
	turn atomic.Int64
}

// SpawnFleet starts n nodes on a store that several can share, and waits until each owns its share. With a
// delay everything that they say to the store, and it to them, takes so much longer.
func SpawnFleet(ctx context.Context, p Program, n int, delay time.Duration) (*Fleet, error) {
	f := &Fleet{}
	if delay > 0 {
		if err := f.slow(&p, delay); err != nil {
			return nil, err
		}
	}
	for i := range n {
		p.Name = fmt.Sprint("bench-", i)
		s, err := Spawn(ctx, p)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Servers = append(f.Servers, s)
	}
	if err := f.share(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// SpawnTogether starts a node for each program, all at once, and waits until each owns its share: for nodes
// whose stores are members of one cluster, which wait for each other.
func SpawnTogether(ctx context.Context, programs []Program) (*Fleet, error) {
	f := &Fleet{Servers: make([]*Server, len(programs))}
	errs := make([]error, len(programs)+1)
	var all sync.WaitGroup
	for i, p := range programs {
		all.Go(func() { f.Servers[i], errs[i] = Spawn(ctx, p) })
	}
	all.Wait()
	if errors.Join(errs...) == nil {
		errs[len(programs)] = f.share(ctx)
	}
	if err := errors.Join(errs...); err != nil {
		f.Servers = slices.DeleteFunc(f.Servers, func(s *Server) bool { return s == nil })
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Resident is the resident memory of all nodes in bytes, without pages of the program's file.
func (f *Fleet) Resident() (sum int64, err error) {
	for _, s := range f.Servers {
		all, files, err := residentBytes(s.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += all - files
	}
	return sum, nil
}

// shareWithin is how long nodes may take to share the partitions.
const shareWithin = 30 * time.Second

// share waits until each node owns its share of the partitions: what is measured before is how they move.
func (f *Fleet) share(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shareWithin)
	defer cancel()
	for {
		sum, most, of := 0, 0, 0
		for _, s := range f.Servers {
			m, err := scrape(ctx, s.http)
			if err != nil {
				return fmt.Errorf("wait until the nodes have shared the partitions: %w", err)
			}
			owned := int(m.values["carillon_partitions_owned"])
			sum, most, of = sum+owned, max(most, owned), int(m.values["carillon_partitions"])
		}
		if n := len(f.Servers); sum == of && most <= (of+n-1)/n {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the nodes have not shared the %d partitions: they own %d, and one of them %d", of, sum,
				most)
		}
	}
}

// slow puts a link with a delay between the nodes and the store's server.
func (f *Fleet) slow(p *Program, delay time.Duration) error {
	server, err := serverOf(p.Store)
	if err != nil {
		return err
	}
	if f.link, err = link.Listen(server, link.Options{}); err != nil {
		return err
	}
	f.link.Delay(delay)
	p.Store = strings.Replace(p.Store, server, f.link.Address(), 1)
	return nil
}

// serverOf returns the host:port of a store's server as it is written in the store's URL. That of a bucket is
// the parameter endpoint.
func serverOf(store string) (string, error) {
	u, err := url.Parse(store)
	if err != nil {
		return "", fmt.Errorf("the store's URL: %w", err)
	}
	if u.Port() != "" {
		return u.Host, nil
	}
	if endpoint, err := url.Parse(u.Query().Get("endpoint")); err == nil && endpoint.Port() != "" &&
		strings.Contains(store, endpoint.Host) {
		return endpoint.Host, nil
	}
	return "", errors.New("the store's URL names no host:port to put a delay before; that of a bucket is endpoint=http://HOST:PORT")
}

// Node is the fleet under load: each connection is to another node in turn.
func (f *Fleet) Node(dial func(address string) (Conn, error)) Node {
	n := f.Servers[0].Node(dial)
	for _, s := range f.Servers[1:] {
		n.Others = append(n.Others, s.cmd.Process.Pid)
	}
	n.Connect = func() (Conn, error) {
		return dial(f.Servers[int(f.turn.Add(1)-1)%len(f.Servers)].grpc)
	}
	return n
}

// Close kills the nodes and ends the link.
func (f *Fleet) Close() error {
	var errs []error
	for _, s := range f.Servers {
		select {
		case <-s.exited:
		default:
			errs = append(errs, s.Kill())
		}
	}
	if f.link != nil {
		errs = append(errs, f.link.Close())
	}
	return errors.Join(errs...)
}
