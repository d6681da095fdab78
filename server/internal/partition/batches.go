package partition

import (
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Write adds metadata records to the batch being filled. A nil value deletes the record.
func (m *Machine) Write(records ...store.MetaRecord) { m.out.write(records...) }

// Plannable returns an error if a job that is put at an instant could never run.
func Plannable(j *carillon.Job, at int64) error {
	sched, err := j.ParseSchedule()
	if err != nil {
		return err
	}
	_, next, _, err := plan.FirstRun(j, sched, toTime(at))
	if err == nil && next.IsZero() {
		return carillon.Errorf(carillon.InvalidArgument, "schedule", "it never fires after %v", toTime(at))
	}
	return err
}

// Keeps reports whether the job exists and would keep its times if it were put. Then it need not be
// Plannable.
func (js *Jobs) Keeps(j *carillon.Job) bool {
	e := js.records.find(j.Key())
	return e != nil && !replans(e, e.job(), j)
}

// MayPut returns an error if not all of the jobs can be stored; bad is then the index of one that cannot.
func (js *Jobs) MayPut(now int64, reqs []message.PutRequest) (bad int, err error) {
	for i := range reqs {
		if err := Plannable(reqs[i].Job, putAt(&reqs[i], now)); err != nil && !js.Keeps(reqs[i].Job) {
			return i, err
		}
		if err := checkOptions(js.records.find(reqs[i].Job.Key()), &reqs[i]); err != nil {
			return i, err
		}
	}
	_, err = js.fit(now, reqs)
	return 0, err
}

// PutAll stores all jobs in one store batch, or none; bad is then the index of one that cannot be stored.
func (js *Jobs) PutAll(now int64, reqs []message.PutRequest) (puts []carillon.PutResult, bad int, err error) {
	if bad, err := js.MayPut(now, reqs); err != nil {
		return nil, bad, err
	}
	if js.deletes(reqs) {
		js.seal()
	}
	puts = make([]carillon.PutResult, len(reqs))
	for i := range reqs {
		if puts[i], err = js.putOver(now, js.records.find(reqs[i].Job.Key()), &reqs[i]); err != nil {
			return nil, i, err
		}
	}
	return puts, 0, nil
}

// PutsNext reports whether what PutAll stores is in the batch that Batch returns next.
func (js *Jobs) PutsNext(reqs []message.PutRequest) bool {
	return len(js.out.sealed) == 0 && !js.deletes(reqs)
}

// deletes reports whether the batch being filled deletes the namesake of a job that is about to be created.
// It must be sealed first, so that all jobs come into one batch after it.
func (js *Jobs) deletes(reqs []message.PutRequest) bool {
	for i := range reqs {
		if e := js.records.entries[store.Ref{Key: reqs[i].Job.Key()}]; e != nil && e.place == gone &&
			e.seq == js.out.seq {
			return true
		}
	}
	return false
}

// ApplyShare stores the share in one store batch, together with its applied marker. If the marker says that
// it is stored already, puts is nil and the valid answer is that of the last call that had one, since no
// earlier one can have become durable. A share is late if its caller has gone. Then a job that was put since
// the batch was decided stays as it is, as if the batch had come first. A share for another term changes
// nothing: the store may have lost the batch's intents since.
func (js *Jobs) ApplyShare(now int64, s *message.Share) (puts []carillon.PutResult, first error) {
	if len(s.Reqs) == 0 || !s.Term.IsZero() && s.Term != js.cfg.Term {
		return nil, &message.OtherTermError{Term: js.cfg.Term}
	}
	if js.applied.again(s.Batch) {
		return nil, nil
	}
	if js.deletes(s.Reqs) {
		js.seal()
	}
	js.usage.Unhold(s.Batch)
	puts = make([]carillon.PutResult, len(s.Reqs))
	for i := range s.Reqs {
		r := &s.Reqs[i]
		e := js.records.find(r.Job.Key())
		if s.Late && e != nil && e.state.Updated >= r.At {
			puts[i] = carillon.PutResult{Job: js.records.view(e)}
			continue
		}
		err := checkOptions(e, r)
		if err == nil {
			puts[i], err = js.putOver(now, e, r)
		}
		if err == nil {
			continue
		}
		// MayPut allowed it when the batch was decided. A job that cannot be created now existed then, and
		// has been deleted since, as if after the batch.
		puts[i] = carillon.PutResult{Job: *r.Job}
		if first == nil {
			first = fmt.Errorf("%s: %w", r.Job.Key(), err)
		}
	}
	js.applied.add(s.Batch, s.Coordinator)
	return puts, first
}
