package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

func said(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// record examines a job or a pending run by itself.
func (p *exam) record(ctx context.Context, r *store.Record) error {
	if at := store.PartitionOf(r.Key, p.n); at != p.number {
		p.findf(RecordMisplaced, r.Ref, "it belongs in partition %d", at)
	} else if !names(r.State.UID, r.Key) {
		p.findf(RecordMisplaced, r.Ref, "its uid %x is of another name", r.State.UID)
	}
	if what := invalid(r); what != "" {
		p.findf(RecordInvalid, r.Ref, "%s", what)
	}
	if err := codec.StateOpened(&r.State); err != nil && p.keys != nil {
		p.findf(Undecrypted, r.Ref, "the messages of its run: %v", err)
	}
	p.terms(r)
	if err := p.due(ctx, r); err != nil {
		return err
	}
	if err := p.places(ctx, r); err != nil {
		return err
	}
	return p.spec(ctx, r)
}

// names reports whether a uid is one of a job's name.
func names(uid carillon.UID, key carillon.Key) bool {
	return binary.BigEndian.Uint64(uid[:8]) == store.KeyHash(key)
}

// invalid says what a state contradicts itself in; empty: nothing.
func invalid(r *store.Record) string {
	s := &r.State
	unfinished := s.Phase == carillon.PhaseReady || s.Phase == carillon.PhaseStaged ||
		s.Phase == carillon.PhaseRunning || s.Phase == carillon.PhaseRetrying
	switch {
	case s.Phase > carillon.PhaseWaiting:
		return said("its phase is %d", s.Phase)
	case s.Priority > lowestPriority:
		return said("its priority is %d", s.Priority)
	case s.Run.Live != unfinished:
		return said("its phase is %s, and an unfinished run there is: %t", s.Phase, s.Run.Live)
	case r.Seq != 0 && !s.Run.Live:
		return "it is a pending run without a run"
	case (s.Phase == carillon.PhaseStaged) != (s.Queue != ""):
		return said("its phase is %s, and its queue %q", s.Phase, s.Queue)
	case s.Run.Attempt < 0 || s.Run.Uncounted < 0 || s.Run.Uncounted > s.Run.Attempt:
		return said("its attempt is %d, of which %d do not count", s.Run.Attempt, s.Run.Uncounted)
	}
	return ""
}

// lowestPriority is the rank of the lowest priority.
const lowestPriority = 3

// terms looks for terms that the partition has not come to.
func (p *exam) terms(r *store.Record) {
	s := &r.State
	for what, epoch := range map[string]uint64{"settled up to": s.Settled, "granted in": s.Run.Grant.Term.Epoch,
		"in doubt since": s.Run.Doubt.Term.Epoch} {
		if epoch > p.epochs[p.number] {
			p.findf(EpochAhead, r.Ref, "it is %s epoch %d, and the last term of the partition is %d", what, epoch,
				p.epochs[p.number])
			return
		}
	}
}

// due compares when a record is due with when it can next do something. What is due too early costs a look.
func (p *exam) due(ctx context.Context, r *store.Record) error {
	s := &r.State
	at := int64(0)
	switch s.Phase {
	case carillon.PhaseReady, carillon.PhaseRetrying:
		at = s.Run.Due
	case carillon.PhaseScheduled:
		if at = s.Next; at != 0 {
			at += s.Jitter
		}
	}
	if at == 0 || s.Due != 0 && s.Due <= at {
		return nil
	}
	what := said("it is due at %d, and its next run is at %d at the latest", s.Due, at)
	if s.Due = at; s.Phase == carillon.PhaseScheduled {
		s.Due = s.Next
	}
	return p.mend(ctx, p.number, findingOf(DueLate, p.number, r.Ref, what),
		&store.Batch{Puts: []store.Record{{Ref: r.Ref, Exists: true, State: *s}}})
}

// places looks for what a record needs beside it: the name of the queue that it is parked in, and its
// permits.
func (p *exam) places(ctx context.Context, r *store.Record) error {
	s := &r.State
	if s.Phase == carillon.PhaseRunning && s.Run.Live && s.Run.Limited {
		p.inForce[r.Ref] = struct{}{}
		if !p.permits[r.Ref] && !p.cut[store.KindLimited] {
			p.findf(PermitMissing, r.Ref, "its attempt %d holds permits", s.Run.Attempt)
		}
	}
	if s.Phase != carillon.PhaseStaged || p.parked[s.Queue] || p.cut[store.KindParked] {
		return nil
	}
	p.parked[s.Queue] = true
	return p.mend(ctx, p.number, findingOf(ParkedMissing, p.number, r.Ref, said("queue %q", s.Queue)),
		&store.Batch{MetaRecords: []store.MetaRecord{partition.ParkedRecord(s.Queue)}})
}

// spec examines what a job is to do.
func (p *exam) spec(ctx context.Context, r *store.Record) error {
	own := r.Seq == 0 || r.State.OwnSpec
	if !own {
		return nil
	}
	b := r.Spec
	if b == nil { // it is long, or not there
		read, err := p.shard.Read(ctx, []store.Ref{r.Ref})
		if err != nil {
			return p.unlessDamaged(store.FaultRecordUnreadable, p.faults > 0, err)
		}
		b = read[0].Spec
	}
	if b == nil {
		p.findf(SpecMissing, r.Ref, "it has none")
		return nil
	}
	j, err := codec.DecodeSpec(b, r.Key)
	if errors.Is(err, store.ErrSealed) && p.keys == nil {
		p.report.Sealed++
		return nil
	}
	if err == nil {
		err = j.CheckForm()
	}
	if err == nil && j.Recurring() {
		_, err = j.ParseSchedule()
	}
	if err != nil {
		p.findf(SpecInvalid, r.Ref, "%v", err)
		return nil
	}
	if r.Seq != 0 {
		return nil
	}
	return p.dependencies(ctx, r, j.DependsOn)
}

// dependencies looks whether the partitions of the jobs that a job waits for know of it.
func (p *exam) dependencies(ctx context.Context, r *store.Record, on []string) error {
	for _, name := range on {
		of := carillon.Key{Namespace: r.Namespace, Name: name}
		want, in := partition.DependencyRecord(of, r.Name), store.PartitionOf(of, p.n)
		q := store.MetaQuery{Kind: want.Kind, Prefix: want.Key, Limit: 1}
		found, err := p.shards[in].MetaRecords(ctx, q)
		if errors.Is(err, store.ErrDamaged) {
			continue // that is told of in its own partition
		}
		if err != nil {
			return err
		}
		if len(found) == 1 && found[0].Key == want.Key {
			continue
		}
		what := said("partition %d does not know that it waits for %q", in, name)
		f := findingOf(DependencyMissing, p.number, r.Ref, what)
		if err := p.mend(ctx, in, f, &store.Batch{MetaRecords: []store.MetaRecord{want}}); err != nil {
			return err
		}
	}
	return nil
}
