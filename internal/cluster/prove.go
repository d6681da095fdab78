package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/codec"
)

// errOccupied says that another node is proving itself at this moment.
var errOccupied = errors.New("another node is on the proving ground")

// proofKey is the key of the job of a proof. The job has no due time, and is deleted at the end of the proof.
var proofKey = carillon.Key{Namespace: carillon.DefaultNamespace, Name: "carillon-proof"}

// proof claims a partition that belongs to nobody, writes a job and a metadata record there, reads and
// deletes the job, and releases the partition: everything that owning partitions requires, done in the same
// way.
func (n *Node) proof(ctx context.Context) (err error) {
	ground := n.cfg.Store.Meta().ProvingGround()
	terms, err := n.leaser.Claim(ctx, n.id, []int{ground}, n.cfg.TTL/beatParts)
	switch {
	case err != nil:
		return fmt.Errorf("claim: %w", err)
	case terms[0].IsZero():
		return errOccupied
	}
	defer func() {
		ctx, cancel := n.patience(context.WithoutCancel(ctx))
		defer cancel()
		if e := n.leaser.Release(ctx, n.id, []store.Holding{{Partition: ground, Term: terms[0]}}); e != nil {
			err = errors.Join(err, fmt.Errorf("release: %w", e))
		}
	}()
	shard, err := n.cfg.Store.Shard(ground, terms[0])
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	ref, spec := store.Ref{Key: proofKey}, codec.EncodeSpec(&carillon.Job{Namespace: proofKey.Namespace, Name: proofKey.Name})
	record := store.Record{Ref: ref, Spec: spec, State: store.State{Generation: 1, Paused: true, Phase: carillon.PhasePaused}}
	small := store.MetaRecord{Kind: store.KindProbe, Key: "proof", Value: []byte(n.id)}
	if err := shard.Apply(ctx, &store.Batch{Puts: []store.Record{record}, MetaRecords: []store.MetaRecord{small}}); err != nil {
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
func (n *Node) prove(ctx context.Context) error {
	ctx, cancel := n.patience(ctx)
	defer cancel()
	for {
		err := n.proof(ctx)
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

// prover runs proofs whenever there is a reason to, until the node ends. It has its own goroutine: a proof
// may hang, and heartbeats must not.
func (n *Node) prover() {
	defer close(n.fit.over)
	again := time.NewTimer(0)
	defer again.Stop()
	again.Stop()
	if is, _, _ := n.fit.stands(); !is {
		again.Reset(n.cfg.TTL / proofParts)
	}
	for {
		select {
		case <-n.stop:
			return
		case <-n.fit.ring:
		case <-again.C:
		}
		select {
		case <-n.fit.ring: // this proof answers all earlier requests for one
		default:
		}
		began := n.elapsed()
		err := n.prove(n.ctx)
		if n.ctx.Err() != nil {
			return
		}
		again.Stop()
		if wait := n.judge(n.ctx, began, err); wait > 0 {
			again.Reset(wait)
		}
	}
}

// judge records the outcome of a proof that began at began, and tells the others if it changes anything. It
// returns when the next proof is due; 0 = when there is a reason.
func (n *Node) judge(ctx context.Context, began time.Duration, err error) time.Duration {
	if errors.Is(err, errOccupied) {
		return occupiedFor
	}
	changed, wait := n.fit.note(began, n.elapsed(), n.answering(), err)
	if !changed {
		return wait
	}
	if err != nil {
		n.log.Warn("this node is unfit to own partitions: it lives, and cannot claim or commit; others own its share until it can",
			"node", n.id, "reason", err, "next_try", wait)
	} else {
		n.log.Info("this node is fit to own partitions", "node", n.id)
	}
	_ = n.heartbeat(ctx) // it has logged its errors
	return wait
}
