package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// Options tell how a store is examined.
type Options struct {
	Most     int           // findings of each kind in the report; all are counted
	Progress func(*Report) // called again and again with what was found so far; may be nil
	Keys     Keys          // decrypt what is encrypted; nil: that is counted, and not looked into
}

// Keys are those that a store is encrypted with. Package sealed has some. Texts that they cannot decrypt stay
// as they are, so that mending what is beside them does not lose them (sealed.Box.Keeping).
type Keys interface {
	Shard(below store.Shard) store.Shard
	Check(marks []store.MetaRecord) error
}

// ErrMeanwhile says that somebody wrote to the store, so that what was found may not be so.
var ErrMeanwhile = errors.New("a node has begun to use the store meanwhile, so what was found may be wrong: stop it, and examine the store again")

// Look examines a store on which no node lives, and changes nothing. It claims nothing, either; if a node
// begins meanwhile the error is [ErrMeanwhile].
func Look(ctx context.Context, s store.Store, o Options) (*Report, error) {
	before, err := idle(ctx, s)
	if err != nil {
		return nil, err
	}
	d := newDoctor(s, o, before)
	if err := d.examine(ctx); err != nil {
		return nil, err
	}
	after, err := idle(ctx, s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w (%w)", ErrMeanwhile, err)
	case !slices.EqualFunc(before, after, sameTerm):
		return nil, ErrMeanwhile
	}
	return d.report, nil
}

func sameTerm(a, b store.Owner) bool { return a.Partition == b.Partition && a.Term == b.Term }

// idle returns the owners of a store on which no node lives; it is an error if one does.
func idle(ctx context.Context, s store.Store) ([]store.Owner, error) {
	if err := transfer.Nobody(ctx, s); err != nil {
		return nil, err
	}
	owners, err := s.Leaser().Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("the owners of partitions: %w", err)
	}
	return owners, nil
}

// Mend examines a store on which no node lives, and mends what can be. It claims all partitions meanwhile. It
// may be killed: another call goes on. After an error the report is nil, and some may be mended.
func Mend(ctx context.Context, s store.Store, o Options) (report *Report, err error) {
	before, err := idle(ctx, s)
	if err != nil {
		return nil, err
	}
	_, why, err := marked(ctx, s)
	if err = cmp.Or(err, why); err != nil {
		return nil, fmt.Errorf("nothing is mended: %w", err)
	}
	frozen, work, err := transfer.Freeze(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, frozen.Thaw(ctx)); err != nil {
			report = nil
		}
	}()
	d := newDoctor(s, o, before)
	d.term = frozen.Term
	if err := d.examine(work); err != nil {
		if work.Err() != nil {
			err = context.Cause(work)
		}
		return nil, err
	}
	return d.report, nil
}

// doctor examines one store.
type doctor struct {
	store  store.Store
	n      int // partitions
	epochs map[int]uint64
	term   func(partition int) store.Term // nil: nothing is mended
	shards []store.Shard
	keys   Keys // nil: what is encrypted is not looked into
	report *Report
	tell   func(*Report)
}

func newDoctor(s store.Store, o Options, owners []store.Owner) *doctor {
	n := s.Meta().Partitions
	d := &doctor{store: s, n: n, epochs: map[int]uint64{}, tell: o.Progress, keys: o.Keys,
		report: &Report{Partitions: n, Kinds: map[Kind]Tally{}, Findings: []Finding{}, most: o.Most}}
	for _, owner := range owners {
		d.epochs[owner.Partition] = owner.Term.Epoch
	}
	return d
}

// termOf is the term under which a partition is mended; zero: it is not.
func (d *doctor) termOf(partition int) store.Term {
	if d.term == nil {
		return store.Term{}
	}
	return d.term(partition)
}

func (d *doctor) examine(ctx context.Context) error {
	for p := range d.n {
		shard, err := d.store.Shard(p, d.termOf(p))
		if err != nil {
			return err
		}
		if shard, err = d.opened(ctx, shard); err != nil {
			return err
		}
		d.shards = append(d.shards, shard)
	}
	n, why, err := marked(ctx, d.store)
	if err != nil {
		return err
	}
	if n > 0 {
		d.report.add(Finding{Kind: StoreMarked, What: said("%d of %d partitions are marked: %v", n, d.n, why)})
	}
	for number := range d.n {
		p := &exam{doctor: d, number: number, shard: d.shards[number]}
		if err := p.examine(ctx); err != nil {
			return fmt.Errorf("partition %d: %w", number, err)
		}
		if d.tell != nil {
			d.tell(d.report)
		}
	}
	return nil
}

// opened returns a partition as it is without encryption, if there are keys. It is an error if one is
// missing.
func (d *doctor) opened(ctx context.Context, shard store.Shard) (store.Shard, error) {
	if d.keys == nil {
		return shard, nil
	}
	marks, err := shard.MetaRecords(ctx, store.SealMarks)
	if err == nil {
		err = d.keys.Check(marks)
	}
	if err != nil && !errors.Is(err, store.ErrDamaged) { // that is told of with the others
		return nil, err
	}
	return d.keys.Shard(shard), nil
}

// marked looks for the marks of a store that is not to be served, in all partitions: why is what the first
// one says.
func marked(ctx context.Context, s store.Store) (n int, why, err error) {
	for p := range s.Meta().Partitions {
		shard, err := s.Shard(p, store.Term{})
		if err != nil {
			return 0, nil, err
		}
		found, err := shard.MetaRecords(ctx, store.MoveMarks)
		if err != nil {
			return 0, nil, fmt.Errorf("the mark of partition %d: %w", p, err)
		}
		if mark := store.CheckMove(found); mark != nil {
			n, why = n+1, cmp.Or(why, mark)
		}
	}
	return n, why, nil
}

// exam is the examination of one partition, and what is known of it.
type exam struct {
	*doctor
	number int
	shard  store.Shard

	faults     int                    // that the engine has found
	left       int                    // of them, those that are not mended
	unreadable []store.Ref            // records that cannot be read, as far as the engine names them
	parked     map[string]bool        // queues that are named as parked
	permits    map[store.Ref]bool     // records for which permits are recorded
	inForce    map[store.Ref]struct{} // records whose attempt in force holds permits
	cut        map[byte]bool          // kinds of metadata records of which not all could be read
}

func (p *exam) examine(ctx context.Context) error {
	steps := []func(context.Context) error{p.engine, p.named, p.records, p.danglingPermits, p.history,
		p.metadata, p.indexes}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// engine has the engine examine how it keeps the partition, if it can.
func (p *exam) engine(ctx context.Context) error {
	e, ok := p.store.(store.Examiner)
	if !ok {
		return nil
	}
	return e.Examine(ctx, p.number, p.termOf(p.number), func(f store.Fault) error {
		if p.faults++; !f.Mended {
			p.left++
		}
		if f.Kind == store.FaultRecordUnreadable {
			p.unreadable = append(p.unreadable, f.Ref)
		}
		found := findingOfRun(f.Kind, p.number, f.Ref.Key, f.Run, f.What)
		found.Pending, found.Mended = f.Ref.Seq, f.Mended
		p.report.add(found)
		return nil
	})
}

// findf reports a finding that nothing mends.
func (p *exam) findf(kind Kind, ref store.Ref, format string, args ...any) {
	p.report.add(findingOf(kind, p.number, ref, fmt.Sprintf(format, args...)))
}

// mend reports a finding after a batch in a partition that mends it has been applied, if anything is mended.
func (p *exam) mend(ctx context.Context, in int, f Finding, b *store.Batch) error {
	if p.term != nil {
		if err := p.shards[in].Apply(ctx, b); err != nil {
			return fmt.Errorf("mend %s: %w", f.Kind, err)
		}
		f.Mended = true
	}
	p.report.add(f)
	return nil
}

// unlessDamaged is the error of a read, unless it says that something is damaged: then it is a finding.
func (p *exam) unlessDamaged(kind Kind, told bool, err error) error {
	if err == nil || !errors.Is(err, store.ErrDamaged) {
		return err
	}
	if !told {
		p.findf(kind, store.Ref{}, "what follows in the partition cannot be read: %v", err)
	}
	return nil
}
