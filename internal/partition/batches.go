package partition

import (
	"encoding/binary"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// A batch put across partitions (docs/decisions/0022) has two kinds of metadata records. store.KindIntent is
// one job of a decided batch, in the partition of the batch's first job. store.KindApplied marks, in each
// partition, that the batch's jobs of that partition are stored; it is kept while the intents may exist.

// Intents returns the metadata records that decide a batch. Whoever finds them stores the jobs.
func Intents(id string, at int64, reqs []PutRequest) []store.MetaRecord {
	out := make([]store.MetaRecord, len(reqs))
	for i := range reqs {
		r := &reqs[i]
		v := binary.AppendUvarint(nil, uint64(len(reqs)))
		v = binary.AppendVarint(v, at)
		v = append(v, r.Random[:]...)
		v = append(v, boolByte(r.Job.Paused))
		v = appendText(v, r.Job.Namespace)
		v = appendText(v, r.Job.Name)
		out[i] = store.MetaRecord{Kind: store.KindIntent, Key: intentKey(id, i), Value: append(v, r.encoded()...)}
	}
	return out
}

// NoIntents returns the records that delete what Intents wrote.
func NoIntents(id string, n int) []store.MetaRecord {
	out := make([]store.MetaRecord, n)
	for i := range out {
		out[i] = store.MetaRecord{Kind: store.KindIntent, Key: intentKey(id, i)}
	}
	return out
}

// IntentPrefix returns the prefix of the keys of a batch's intents.
func IntentPrefix(id string) string { return id + "\x00" }

func intentKey(id string, i int) string {
	return string(binary.BigEndian.AppendUint32([]byte(IntentPrefix(id)), uint32(i)))
}

// IntentID returns the id of the batch that an intent belongs to.
func IntentID(key string) string { return key[:max(0, len(key)-5)] }

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ReadIntents decodes the requests of a batch from all of its intents.
func ReadIntents(records []store.MetaRecord) ([]PutRequest, error) {
	reqs := make([]PutRequest, len(records))
	for i := range records {
		n, err := readIntent(&reqs[i], records[i].Value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("intent %d: %w", i, err)
		case n != uint64(len(records)):
			return nil, fmt.Errorf("intent %d: %w: %d of %d are there", i, store.ErrDamaged, len(records), n)
		}
	}
	return reqs, nil
}

func readIntent(r *PutRequest, b []byte) (n uint64, err error) {
	in := intentReader{b: b}
	n = in.uvarint()
	r.At = in.varint()
	copy(r.Random[:], in.take(len(r.Random)))
	paused := in.take(1)
	key := carillon.Key{Namespace: string(in.text()), Name: string(in.text())}
	if in.short {
		return 0, store.ErrDamaged
	}
	r.Spec = in.b
	j, err := store.DecodeSpec(r.Spec, key)
	if err != nil {
		return 0, err
	}
	j.Paused = paused[0] == 1
	r.Job = &j
	return n, nil
}

// intentReader decodes the parts of an intent; short means that it ended too early.
type intentReader struct {
	b     []byte
	short bool
}

func (r *intentReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.short, r.b = true, nil
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *intentReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		n = len(r.b) + 1
	}
	r.take(n)
	return v
}

func (r *intentReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		n = len(r.b) + 1
	}
	r.take(n)
	return v
}

func (r *intentReader) text() []byte { return r.take(int(min(r.uvarint(), 1<<20))) }

// Write adds metadata records to the batch being filled. A nil value deletes the record.
func (m *Machine) Write(small ...store.MetaRecord) {
	m.out.small = append(m.out.small, small...)
	m.wait(m.out.seq)
}

// Plannable returns an error if a job that is put at an instant could never run.
func Plannable(j *carillon.Job, at int64) error {
	sched, err := j.ParseSchedule()
	if err != nil {
		return err
	}
	_, next, _, err := carillon.FirstRun(j, sched, toTime(at))
	if err == nil && next.IsZero() {
		return carillon.Errorf(carillon.InvalidArgument, "schedule", "it never fires after %v", toTime(at))
	}
	return err
}

// Keeps reports whether the job exists and would keep its times if it were put. Then it need not be
// Plannable.
func (m *Machine) Keeps(j *carillon.Job) bool {
	e := m.find(j.Key())
	return e != nil && !replans(e, m.jobOf(e), j)
}

// MayPut returns an error if not all of the jobs can be stored; bad is then the index of one that cannot.
func (m *Machine) MayPut(now int64, reqs []PutRequest) (bad int, err error) {
	for i := range reqs {
		if err := Plannable(reqs[i].Job, reqs[i].at(now)); err != nil && !m.Keeps(reqs[i].Job) {
			return i, err
		}
		if err := permits(m.find(reqs[i].Job.Key()), &reqs[i]); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// PutAll stores all jobs in one store batch, or none; bad is then the index of one that cannot be stored.
func (m *Machine) PutAll(now int64, reqs []PutRequest) (puts []carillon.PutResult, bad int, err error) {
	if bad, err := m.MayPut(now, reqs); err != nil {
		return nil, bad, err
	}
	if m.deletes(reqs) {
		m.seal()
	}
	puts = make([]carillon.PutResult, len(reqs))
	for i := range reqs {
		if puts[i], err = m.Put(now, reqs[i]); err != nil {
			return nil, i, err
		}
	}
	return puts, 0, nil
}

// PutsNext reports whether what PutAll stores is in the batch that Batch returns next.
func (m *Machine) PutsNext(reqs []PutRequest) bool { return len(m.out.sealed) == 0 && !m.deletes(reqs) }

// deletes reports whether the batch being filled deletes the namesake of a job that is about to be created.
// It must be sealed first, so that all jobs come into one batch after it.
func (m *Machine) deletes(reqs []PutRequest) bool {
	for i := range reqs {
		if e := m.entries[store.Ref{Key: reqs[i].Job.Key()}]; e != nil && e.gone && e.seq == m.out.seq {
			return true
		}
	}
	return false
}

// Share is the part of a decided batch that falls to one partition.
type Share struct {
	Batch       string
	Coordinator int // the partition that holds the intents
	Late        bool
	Reqs        []PutRequest
	// Term is the term under which the share may be stored: it is known to belong to the history of the store
	// that holds the batch's intents. The zero term allows any; nodes older than this field send it.
	Term store.Term
}

// OtherTermError says that a share was not stored because it is for another term of the partition. It is also
// the answer to a share without jobs, which asks for the term.
type OtherTermError struct{ Term store.Term }

// Error implements [error].
func (e *OtherTermError) Error() string {
	return fmt.Sprintf("the partition's term has epoch %d, which is not the one that the share is for", e.Term.Epoch)
}

// ApplyShare stores the share in one store batch, together with a mark. If the mark says that it is stored
// already, puts is nil and the valid answer is that of the last call that had one, since no earlier one can
// have become durable. A share is late if its caller has gone. Then a job that was put since the batch was
// decided stays as it is, as if the batch had come first. A share for another term changes nothing: the store
// may have lost the batch's intents since.
func (m *Machine) ApplyShare(now int64, s *Share) (puts []carillon.PutResult, first error) {
	if len(s.Reqs) == 0 || !s.Term.IsZero() && s.Term != m.cfg.Term {
		return nil, &OtherTermError{m.cfg.Term}
	}
	if mark, done := m.marks[s.Batch]; done {
		// Write it again: if the store was reset to an older state it refuses, and there is no mark.
		if mark.seq != m.out.seq {
			m.mark(s)
		}
		m.wait(m.out.seq)
		return nil, nil
	}
	if m.deletes(s.Reqs) {
		m.seal()
	}
	puts = make([]carillon.PutResult, len(s.Reqs))
	for i := range s.Reqs {
		r := &s.Reqs[i]
		e := m.find(r.Job.Key())
		if s.Late && e != nil && e.state.Updated >= r.At {
			puts[i] = carillon.PutResult{Job: m.view(e)}
			continue
		}
		var err error
		if puts[i], err = m.Put(now, *r); err == nil {
			continue
		}
		// MayPut allowed it when the batch was decided. A job that cannot be created now existed then, and
		// has been deleted since, as if after the batch.
		puts[i] = carillon.PutResult{Job: *r.Job}
		if first == nil {
			first = fmt.Errorf("%s: %w", r.Job.Key(), err)
		}
	}
	m.mark(s)
	return puts, first
}

// mark records that a share is stored.
func (m *Machine) mark(s *Share) {
	m.marks[s.Batch] = appliedMark{coordinator: s.Coordinator, seq: m.out.seq}
	m.Write(store.MetaRecord{Kind: store.KindApplied, Key: s.Batch, Value: binary.AppendUvarint(nil, uint64(s.Coordinator))})
}

// appliedMark is a store.KindApplied record in memory.
type appliedMark struct {
	coordinator int
	seq         uint64 // the batch that holds it
}

// loadApplied takes the metadata records of kind store.KindApplied, at takeover.
func (m *Machine) loadApplied(records []store.MetaRecord) {
	for _, r := range records {
		coordinator, _ := binary.Uvarint(r.Value)
		m.marks[r.Key] = appliedMark{coordinator: int(coordinator)}
	}
}

// Applied returns the batches whose marks are in the partition, with their coordinators.
func (m *Machine) Applied() map[string]int {
	out := make(map[string]int, len(m.marks))
	for id, mark := range m.marks {
		out[id] = mark.coordinator
	}
	return out
}

// Unmark removes the mark of a batch whose intents are durably gone.
func (m *Machine) Unmark(id string) {
	if _, marked := m.marks[id]; marked {
		delete(m.marks, id)
		m.Write(store.MetaRecord{Kind: store.KindApplied, Key: id})
	}
}
