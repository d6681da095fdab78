package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Forward measures what it costs to put a job through a node that does not own its partition: the same puts,
// in turn, through the owner and through another node.
type Forward struct {
	Fleet   *Fleet // at least two nodes
	Jobs    int    // of each way; default 10,000
	Callers int    // default 16
	Other   bool   // through another node than the owner
}

// Run measures one way.
func (f Forward) Run(ctx context.Context, b *Bench, dial func(address string) (Conn, error)) (Result, error) {
	if f.Jobs <= 0 {
		f.Jobs = 10_000
	}
	if f.Callers <= 0 {
		f.Callers = 16
	}
	conns := map[string]Conn{}
	defer func() {
		for _, c := range conns {
			_ = c.Close() // the results are in
		}
	}()
	for _, s := range f.Fleet.Servers {
		c, err := dial(s.grpc)
		if err != nil {
			return Result{}, err
		}
		conns[s.program.Name] = c
	}
	via, err := f.ways(ctx, b, conns)
	if err != nil {
		return Result{}, err
	}
	return f.measure(ctx, b, via)
}

// ways is whom to ask for a job of each partition.
func (f Forward) ways(ctx context.Context, b *Bench, conns map[string]Conn) ([]Conn, error) {
	status, err := b.cluster(ctx)
	if err != nil {
		return nil, err
	}
	via := make([]Conn, len(status.Partitions))
	for _, p := range status.Partitions {
		for name, c := range conns {
			if (name == p.Node) != f.Other {
				via[p.Partition] = c
			}
		}
		if via[p.Partition] == nil {
			return nil, fmt.Errorf("partition %d: there is nobody to ask", p.Partition)
		}
	}
	if len(via) == 0 {
		return nil, errors.New("there are no partitions")
	}
	return via, nil
}

func (f Forward) measure(ctx context.Context, b *Bench, via []Conn) (Result, error) {
	way := map[bool]string{false: "through the owner", true: "through another node"}[f.Other]
	r := Result{Bench: "forward", Operations: int64(f.Jobs),
		Parameters: fmt.Sprintf("%d puts %s, %d callers", f.Jobs, way, f.Callers)}
	prefix, due, took := newPrefix(), time.Now().AddDate(1, 0, 0), newHistogram()
	w, err := b.begin(ctx, "forward")
	if err != nil {
		return r, err
	}
	defer w.close()
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for c := range f.Callers {
		group.Go(func() error {
			for i := c; i < f.Jobs; i += f.Callers {
				job := carillon.Job{Namespace: b.cfg.Namespace, Name: fmt.Sprint(prefix, i),
					Due: carillon.At(due), Data: payload(defaultPayload),
					Target: carillon.WorkerQueue(prefix)}
				begin := time.Now()
				if _, err := via[store.PartitionOf(job.Key(), len(via))].PutJob(ctx, job); err != nil {
					return err
				}
				took.record(time.Since(begin))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	r.took(time.Since(start))
	r.Latency = took.quantiles()
	err = w.end(&r)
	return r, err
}
