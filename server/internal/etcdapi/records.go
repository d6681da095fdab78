package etcdapi

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// found is a key with its value, and the job that it is about; of a scheduler's key there is none.
type found struct {
	*mvccpb.KeyValue
	job carillon.Key
}

// each calls f with every key of the span, in no order, until it fails. Values are left out unless they are
// wanted.
func (s *Service) each(ctx context.Context, sp span, values bool, f func(found) error) error {
	for _, prefix := range [...]string{daprrecord.CounterPrefix, daprrecord.JobPrefix} {
		if !meet(sp.prefix(), prefix) {
			continue
		}
		for _, scan := range scansOf(sp.prefix()[min(len(prefix), len(sp.prefix())):]) {
			err := s.jobsOf(ctx, scan.namespace, scan.prefix, func(job *carillon.Job) error {
				return eachOf(job, prefix, sp, values, f)
			})
			if err != nil {
				return err
			}
		}
	}
	if meet(sp.prefix(), daprrecord.LeadershipPrefix) {
		return s.eachLeader(ctx, sp, f)
	}
	return nil
}

// eachOf calls f with the record of a job under the prefix, if there is one in the span.
func eachOf(job *carillon.Job, prefix string, sp span, values bool, f func(found) error) error {
	if job.Target.Dapr == nil || job.Status == nil {
		return nil // no job of Dapr's has such a name
	}
	key := prefix + nameOf(job)
	if !sp.contains(key) {
		return nil
	}
	r, err := recordOf(job)
	if err != nil {
		return err
	}
	value, counter, err := r.Encode()
	if err != nil {
		return err
	}
	item := found{&mvccpb.KeyValue{Key: []byte(key), CreateRevision: revisionOf(job.Status.Created)}, job.Key()}
	if prefix == daprrecord.JobPrefix {
		item.ModRevision, item.Version = revisionOf(job.Status.Updated), int64(job.Status.Generation)
	} else {
		if counter == nil {
			return nil
		}
		value = counter
		item.ModRevision, item.Version = revisionOf(lastChange(job)), 1+int64(job.Status.Counters.Fired)
	}
	if values {
		item.Value = value
	}
	return f(item)
}

// nameOf returns a job's name in Dapr's keys.
func nameOf(job *carillon.Job) string {
	a := daprrecord.Address{Namespace: job.Namespace, Target: job.Target.Dapr,
		Reminder: job.Target.Dapr.ActorType != ""}
	return a.InDapr(daprrecord.NameOf(job.Name))
}

// keptPartition is where the metadata of a job say which number tells it from others of its name in the
// records it came from: counters name it.
const keptPartition = "dapr.partition"

// recordOf returns the record of a job. What Dapr has no word for, such as that it is paused, is not in it.
func recordOf(job *carillon.Job) (daprrecord.Record, error) {
	r, err := exactRecordOf(job)
	if err == nil {
		return r, nil
	}
	r, err = daprrecord.AsAsked(job)
	return withPartition(r, job), err
}

// exactRecordOf returns the record of a job, which says everything of it.
func exactRecordOf(job *carillon.Job) (daprrecord.Record, error) {
	r, err := daprrecord.FromJob(job)
	return withPartition(r, job), err
}

// withPartition returns the record with the number that it came with, if it did.
func withPartition(r daprrecord.Record, job *carillon.Job) daprrecord.Record {
	n, err := strconv.ParseUint(job.Metadata[keptPartition], 10, 64)
	if err != nil || r.Job == nil {
		return r
	}
	r.Job.PartitionId = n
	if r.Counter != nil {
		r.Counter.JobPartitionId = n
	}
	return r
}

// lastChange returns when a job's counter changed last, as far as that is known.
func lastChange(job *carillon.Job) (last time.Time) {
	last = job.Status.Updated
	if run := job.Status.LastRun; run != nil && run.Finished.After(last) {
		last = run.Finished
	}
	if run := job.Status.Current; run != nil && run.Started.After(last) {
		last = run.Started
	}
	return last
}

// errEnough ends a search.
var errEnough = errors.New("enough")

// jobOf returns the job of a name in Dapr's keys; nil if there is none.
func (s *Service) jobOf(ctx context.Context, name string) (job *carillon.Job, err error) {
	for _, scan := range scansOf(name) {
		err := s.jobsOf(ctx, scan.namespace, scan.prefix, func(j *carillon.Job) error {
			if j.Target.Dapr == nil || nameOf(j) != name {
				return nil
			}
			job = j
			return errEnough
		})
		if job != nil || err != nil {
			return job, unless(errEnough, err)
		}
	}
	return nil, nil
}

// unless returns err, or nil if it is the other.
func unless(other, err error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}
