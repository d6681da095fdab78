package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// errOccupied says that another node is proving itself at this moment.
var errOccupied = errors.New("another node is on the proving ground")

// proofKey is the key of the job of a proof. The job has no due time, and is deleted at the end of the proof.
var proofKey = carillon.Key{Namespace: carillon.DefaultNamespace, Name: "carillon-proof"}

// prover finds out whether the node can own partitions: it claims a partition that belongs to nobody, writes
// and reads there, and releases it. It has its own goroutine: a proof may hang, and heartbeats must not.
type prover struct {
	store     store.Store
	leases    store.Leases
	node      string
	ttl       time.Duration
	clock     monotonic
	log       *slog.Logger
	fitness   *fitness
	answering func() time.Duration      // since when the store has answered everything else
	publish   func(ctx context.Context) // tells the others that the node has become fit or unfit
	done      chan struct{}             // closed when the goroutine has ended
}

// proof claims a partition that belongs to nobody, writes a job and a metadata record there, reads and
// deletes the job, and releases the partition: everything that owning partitions requires, done in the same
// way.
func (p *prover) proof(ctx context.Context) (err error) {
	ground := p.store.Meta().ProvingGround()
	terms, err := p.leases.Claim(ctx, p.node, []int{ground}, p.ttl/heartbeatParts)
	switch {
	case err != nil:
		return fmt.Errorf("claim: %w", err)
	case terms[0].IsZero():
		return errOccupied
	}
	defer func() {
		ctx, cancel := oneAnswer(context.WithoutCancel(ctx), p.ttl)
		defer cancel()
		if e := p.leases.Release(ctx, p.node, []store.Holding{{Partition: ground, Term: terms[0]}}); e != nil {
			err = errors.Join(err, fmt.Errorf("release: %w", e))
		}
	}()
	shard, err := p.store.Shard(ground, terms[0])
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	ref, spec := store.Ref{Key: proofKey}, codec.EncodeSpec(&carillon.Job{Namespace: proofKey.Namespace,
		Name: proofKey.Name})
	record := store.Record{Ref: ref, Spec: spec,
		State: store.State{Generation: 1, Paused: true, Phase: carillon.PhasePaused}}
	meta := store.MetaRecord{Kind: store.KindProbe, Key: "proof", Value: []byte(p.node)}
	if err := shard.Apply(ctx, &store.Batch{Puts: []store.Record{record},
		MetaRecords: []store.MetaRecord{meta}}); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	found, err := shard.Read(ctx, []store.Ref{ref})
	switch {
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case len(found) != 1 || !found[0].Exists:
		return errors.New("read: what was committed is not there")
	}
	if err := shard.Apply(ctx, &store.Batch{Deletes: []store.Ref{ref}}); err != nil {
		return fmt.Errorf("commit a delete: %w", err)
	}
	return nil
}

// occupiedFor is the pause of a node that finds another one on the proving ground.
const occupiedFor = 20 * time.Millisecond

// prove tries until a proof has succeeded or failed, within the time that the store may take for one answer.
func (p *prover) prove(ctx context.Context) error {
	ctx, cancel := oneAnswer(ctx, p.ttl)
	defer cancel()
	for {
		err := p.proof(ctx)
		// This node was too slow, and another has begun.
		if !errors.Is(err, errOccupied) && store.OutcomeOf(err) != store.Fenced {
			return err
		}
		select {
		case <-time.After(occupiedFor):
		case <-ctx.Done():
			return err
		}
	}
}

// proveFirst runs the proof of a node that joins.
func (p *prover) proveFirst(ctx context.Context) {
	began := p.clock.elapsed()
	err := p.prove(ctx)
	if changed, _ := p.fitness.record(began, p.clock.elapsed(), p.answering(), err); changed && err != nil {
		p.log.Warn("this node is unfit to own partitions: it cannot claim or commit; it owns none until it can",
			"node", p.node, "reason", err)
	}
}

// run runs proofs whenever there is a reason to, until stop is closed. Requests to the store end with ctx.
func (p *prover) run(ctx context.Context, stop <-chan struct{}) {
	defer close(p.done)
	again := time.NewTimer(0)
	defer again.Stop()
	again.Stop()
	if fit, _, _ := p.fitness.report(); !fit {
		again.Reset(p.ttl / proofParts)
	}
	for {
		select {
		case <-stop:
			return
		case <-p.fitness.requests:
		case <-again.C:
		}
		select {
		case <-p.fitness.requests: // this proof answers all earlier requests for one
		default:
		}
		began := p.clock.elapsed()
		err := p.prove(ctx)
		if ctx.Err() != nil {
			return
		}
		again.Stop()
		if wait := p.conclude(ctx, began, err); wait > 0 {
			again.Reset(wait)
		}
	}
}

// conclude records the outcome of a proof that began at began, and tells the others if it changes anything.
// It returns when the next proof is due; 0 = when there is a reason.
func (p *prover) conclude(ctx context.Context, began time.Duration, err error) time.Duration {
	if errors.Is(err, errOccupied) {
		return occupiedFor
	}
	changed, wait := p.fitness.record(began, p.clock.elapsed(), p.answering(), err)
	if !changed {
		return wait
	}
	if err != nil {
		p.log.Warn("this node is unfit to own partitions: it lives, and cannot claim or commit; others own its share until it can",
			"node", p.node, "reason", err, "next_try", wait)
	} else {
		p.log.Info("this node is fit to own partitions", "node", p.node)
	}
	p.publish(ctx)
	return wait
}
