package etcdapi

import (
	"context"
	"errors"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// Put implements the rpc.
func (k kvServer) Put(ctx context.Context, m *pb.PutRequest) (*pb.PutResponse, error) {
	answers, err := k.s.putAll(ctx, []*pb.PutRequest{m})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// draft is what is to be written of a job: its record, its counter, or both.
type draft struct {
	name         string // in Dapr's keys
	job, counter []byte // nil: it is not written
	put          *carillon.Job
}

// putAll writes records: all are checked before the first is written. Those of one job are one change.
func (s *Service) putAll(ctx context.Context, all []*pb.PutRequest) ([]*pb.PutResponse, error) {
	drafts, err := draftsOf(all)
	if err != nil {
		return nil, err
	}
	answers, err := s.before(ctx, all)
	if err != nil {
		return nil, err
	}
	if err := sideBySide(len(drafts), func(i int) error { return s.write(ctx, drafts[i]) }); err != nil {
		return nil, err
	}
	for i := range answers {
		answers[i].Header = s.header(0)
	}
	return answers, nil
}

// before returns the answers to puts, with what is there before them, where that is asked for.
func (s *Service) before(ctx context.Context, all []*pb.PutRequest) ([]*pb.PutResponse, error) {
	answers, left := make([]*pb.PutResponse, len(all)), s.options.AnswerBytes
	for i, m := range all {
		answers[i] = &pb.PutResponse{}
		if !m.GetPrevKv() {
			continue
		}
		err := hold(ctx, s.answers)
		if err == nil {
			answers[i].PrevKv, err = s.get(ctx, m.GetKey())
		}
		if err != nil {
			return nil, err
		}
		if answers[i].PrevKv != nil {
			left -= sizeOf(answers[i].PrevKv)
		}
		if left < 0 {
			return nil, status.Errorf(codes.ResourceExhausted,
				"what is there before the puts is larger than %d bytes: nothing was put; ask for it in fewer of them at a time",
				s.options.AnswerBytes)
		}
	}
	return answers, nil
}

// get returns a record; nil if there is none.
func (s *Service) get(ctx context.Context, key []byte) (item *mvccpb.KeyValue, err error) {
	err = s.each(ctx, spanOf(key, nil), true, func(f found) error {
		item = f.KeyValue
		return nil
	})
	return item, err
}

// draftsOf reads what is to be written, by job.
func draftsOf(all []*pb.PutRequest) (drafts []*draft, err error) {
	byName := map[string]*draft{}
	for _, m := range all {
		if err := checkPut(m); err != nil {
			return nil, err
		}
		prefix, name, err := writable(string(m.GetKey()))
		if err != nil {
			return nil, err
		}
		d := byName[name]
		if d == nil {
			d = &draft{name: name}
			byName[name], drafts = d, append(drafts, d)
		}
		part := &d.job
		if prefix == daprrecord.CounterPrefix {
			part = &d.counter
		}
		if *part != nil {
			return nil, rpctypes.ErrGRPCDuplicateKey
		}
		*part = append([]byte{}, m.GetValue()...)
	}
	for _, d := range drafts {
		if err := d.read(); err != nil {
			return nil, err
		}
	}
	return drafts, nil
}

// checkPut refuses options that would be passed over.
func checkPut(m *pb.PutRequest) error {
	switch {
	case len(m.GetKey()) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case m.GetLease() != 0:
		return errNoLease
	case m.GetIgnoreValue() || m.GetIgnoreLease():
		return unsupported("a put that keeps the value or the lease", "give the value")
	}
	return nil
}

// writable splits a key that can be written.
func writable(key string) (prefix, name string, err error) {
	for _, prefix := range [...]string{daprrecord.JobPrefix, daprrecord.CounterPrefix} {
		if name, found := strings.CutPrefix(key, prefix); found {
			return prefix, name, nil
		}
	}
	if strings.HasPrefix(key, daprrecord.LeadershipPrefix) {
		return "", "", errSchedulers(key)
	}
	return "", "", status.Errorf(codes.InvalidArgument,
		"key %q is not one of %s…, %s…: only what Dapr's scheduler keeps can be written here", clip(key),
		daprrecord.JobPrefix, daprrecord.CounterPrefix)
}

// errSchedulers is about a key that no caller can write.
func errSchedulers(key string) error {
	return status.Errorf(codes.InvalidArgument, "key %q: the keys of schedulers are written by these alone", clip(key))
}

// read checks what is to be written. A counter alone needs the job that is there, and is read with it.
func (d *draft) read() error {
	if d.job == nil {
		_, err := daprrecord.DecodeCounter(d.counter)
		return d.wrong(daprrecord.CounterPrefix, err)
	}
	r, err := daprrecord.Decode(d.name, d.job, d.counter)
	if err == nil {
		d.put, err = jobOf(&r)
	}
	return d.wrong(daprrecord.JobPrefix, err)
}

// wrong says of which key an error is.
func (d *draft) wrong(prefix string, err error) error {
	if err == nil {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "key %q: %v", clip(prefix+d.name), err)
}

// jobOf returns the job of a record; nil if it never fires again.
func jobOf(r *daprrecord.Record) (*carillon.Job, error) {
	job, err := r.ToJob()
	if err != nil {
		return nil, unless(daprrecord.ErrOver, err)
	}
	if job.Metadata == nil {
		job.Metadata = map[string]string{}
	}
	job.Metadata[keptPartition] = strconv.FormatUint(r.Job.GetPartitionId(), 10)
	return &job, nil
}

// write makes the change. As with Dapr's scheduler, a job that never fires again is gone as soon as it is
// there, and a counter counts for the job that it names and for no other of its name.
func (s *Service) write(ctx context.Context, d *draft) error {
	if d.job == nil {
		return s.writeCounter(ctx, d)
	}
	if d.put == nil {
		return s.remove(ctx, d.name)
	}
	return s.put(ctx, d, 0)
}

// put puts a job as if there had been none, over a generation of an older one if that is not 0.
func (s *Service) put(ctx context.Context, d *draft, generation uint64) error {
	_, err := s.jobs.PutJob(ctx, *d.put, carillon.PutOptions{Replace: true, IfGeneration: generation})
	if errors.Is(err, carillon.ErrEndsFirst) {
		err = s.remove(ctx, d.name)
	}
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Kind == carillon.InvalidArgument {
		return d.wrong(daprrecord.JobPrefix, err)
	}
	return err
}

// maxTries is how often a counter is written over a job that others change at the same time.
const maxTries = 5

// writeCounter sets how far a job is: the job is put again, as it was asked for and as far as the counter
// says.
func (s *Service) writeCounter(ctx context.Context, d *draft) error {
	for try := 1; ; try++ {
		job, err := s.jobOf(ctx, d.name)
		if err != nil || job == nil {
			return err
		}
		r, err := exactRecordOf(job)
		if err != nil { // there would be something else of it afterwards, or it is over anyway
			return d.wrong(daprrecord.CounterPrefix, unless(daprrecord.ErrOver, err))
		}
		if r.Counter, err = daprrecord.DecodeCounter(d.counter); err != nil {
			return err
		}
		if r.Counter.GetJobPartitionId() != r.Job.GetPartitionId() {
			return nil
		}
		if d.put, err = jobOf(&r); err != nil {
			return d.wrong(daprrecord.CounterPrefix, err)
		}
		if d.put == nil {
			_, err = s.jobs.DeleteJob(ctx, job.Key(), carillon.IfGeneration(job.Status.Generation))
		} else {
			err = s.put(ctx, d, job.Status.Generation)
		}
		if try == maxTries || !errors.Is(err, carillon.FailedPrecondition) {
			return unless(carillon.NotFound, err)
		}
	}
}

// clip keeps messages short.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
