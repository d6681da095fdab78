package sim

import (
	"context"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/store"
)

// audit writes down what the store committed for one life of a node, and what it refused.
type audit struct {
	store.Store
	life string
	log  *auditLog
}

// auditLog is what all lives share: the states of runs as they were last committed. The store's own locks put
// writes of one partition in order; those of different partitions are independent.
type auditLog struct {
	rec  *checker.Recorder
	mu   sync.Mutex
	runs []map[string]string // by partition: run id → state
}

func newAuditLog(rec *checker.Recorder, partitions int) *auditLog {
	l := &auditLog{rec: rec}
	for range partitions {
		l.runs = append(l.runs, map[string]string{})
	}
	return l
}

// Shard is for [store.Store].
func (a *audit) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := a.Store.Shard(p, term)
	if err != nil || term.IsZero() {
		return sh, err
	}
	return &auditShard{sh, a, p, term}, nil
}

// Leaser is for [store.Store].
func (a *audit) Leaser() store.Leaser { return &auditLeaser{a.Store.Leaser(), a} }

type auditLeaser struct {
	store.Leaser
	a *audit
}

// Claim is for [store.Leaser].
func (l *auditLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) ([]store.Term, error) {
	invoke := time.Now()
	terms, err := l.Leaser.Claim(ctx, node, ps, ttl)
	for i, t := range terms {
		if !t.IsZero() {
			l.a.log.rec.Claim(checker.Claim{Partition: ps[i], Epoch: t.Epoch, Nonce: t.Nonce, Node: l.a.life,
				Invoke: invoke, Return: time.Now()})
		}
	}
	return terms, err
}

// Release is for [store.Leaser].
func (l *auditLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if err := l.Leaser.Release(ctx, node, held); err != nil {
		return err
	}
	for _, h := range held {
		l.a.log.rec.Release(checker.Release{Partition: h.Partition, Epoch: h.Term.Epoch,
			Node: l.a.life, At: time.Now()})
	}
	return nil
}

type auditShard struct {
	store.Shard
	a    *audit
	p    int
	term store.Term
}

// Apply is for [store.Shard]. Nobody else writes to the partition meanwhile: in the bubble no time passes.
func (s *auditShard) Apply(ctx context.Context, b *store.Batch) error {
	err := s.Shard.Apply(ctx, b)
	s.note(b, err)
	return err
}

// ApplyGroup is for [store.Grouper], if the store below is one.
func (a *audit) ApplyGroup(ctx context.Context, writes []store.Write) error {
	below := make([]store.Write, len(writes))
	for i, w := range writes {
		below[i] = store.Write{Shard: w.Shard.(*auditShard).Shard, Batch: w.Batch}
	}
	err := a.Store.(store.Grouper).ApplyGroup(ctx, below)
	for _, w := range writes {
		w.Shard.(*auditShard).note(w.Batch, err)
	}
	return err
}

// ReadAll is for [store.Reader]: a store below that is none reads for one after the other.
func (a *audit) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	below := make([]store.Asked, len(asked))
	for i, w := range asked {
		below[i] = store.Asked{Shard: w.Shard.(*auditShard).Shard, Refs: w.Refs}
	}
	if r, ok := a.Store.(store.Reader); ok {
		return r.ReadAll(ctx, below)
	}
	out := make([][]store.Record, len(below))
	for i, one := range below {
		var err error
		if out[i], err = one.Shard.Read(ctx, one.Refs); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// note writes down how a write ended.
func (s *auditShard) note(b *store.Batch, err error) {
	w := checker.Write{Partition: s.p, Epoch: s.term.Epoch, Nonce: s.term.Nonce, Node: s.a.life, At: time.Now()}
	if err == nil {
		s.a.log.committed(w, b)
		return
	}
	w.Refused = true
	s.a.log.rec.Write(w)
}

// committed notes the changes of runs in a batch; a batch without any is a write too.
func (l *auditLog) committed(w checker.Write, b *store.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	note := func(id, to string, attempt int, reason string) {
		from := l.runs[w.Partition][id]
		if from == to && to != "granted" {
			return // the record was written for another reason
		}
		w.RunID, w.From, w.To, w.Attempt, w.Reason = id, from, to, attempt, reason
		l.rec.Write(w)
		l.runs[w.Partition][id] = to
		n++
	}
	for i := range b.Redrive {
		note(b.Redrive[i].ID.String(), "pending", 0, "")
	}
	for i := range b.Runs {
		r := &b.Runs[i]
		if r.Skipped == 0 { // a stretch of times is no run
			if id := r.ID.String(); r.Attempt > 0 && l.runs[w.Partition][id] != "granted" {
				note(id, "granted", r.Attempt, "") // a grant is written lazily, with its end at the latest
			}
			note(r.ID.String(), endState(r.Status), r.Attempt, reasonOf(r))
		}
	}
	for i := range b.Puts {
		s := &b.Puts[i].State
		if !s.Run.Live {
			continue
		}
		to := "pending"
		if s.Phase == carillon.PhaseRunning {
			to = "granted"
		}
		note(s.Identity(w.Partition).String(), to, s.Run.Attempt, "")
	}
	if n == 0 {
		w.RunID, w.From, w.To, w.Attempt, w.Reason = "", "", "", 0, ""
		l.rec.Write(w)
	}
}

func endState(s carillon.RunStatus) string {
	if s == carillon.RunSucceeded {
		return "done"
	}
	return s.String()
}

// reasonOf is why a run ended without running. A cancelled one without a reason was cancelled by hand.
func reasonOf(r *store.RunRecord) string {
	if r.Reason == "" && r.Status == carillon.RunCancelled {
		return "cancelled"
	}
	return r.Reason
}
