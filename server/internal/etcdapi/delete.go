package etcdapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// DeleteRange implements the rpc.
func (k kvServer) DeleteRange(ctx context.Context,
	m *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := checkDelete(m); err != nil {
		return nil, err
	}
	if err := hold(ctx, k.s.answers); err != nil {
		return nil, err
	}
	left := k.s.options.AnswerBytes
	return k.s.deleteRange(ctx, m, &left)
}

// checkDelete refuses what is not a range.
func checkDelete(m *pb.DeleteRangeRequest) error {
	if len(m.GetKey()) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// deleteRange deletes the jobs whose records are in a range, and with them their counters.
func (s *Service) deleteRange(ctx context.Context, m *pb.DeleteRangeRequest,
	left *int) (*pb.DeleteRangeResponse, error) {
	records, jobs, err := s.victims(ctx, m, left)
	if err != nil {
		return nil, err
	}
	gone := make([]bool, len(jobs))
	err = sideBySide(len(jobs), func(i int) error {
		_, err := s.jobs.DeleteJob(ctx, jobs[i])
		gone[i] = err == nil
		return unless(carillon.NotFound, err)
	})
	deleted := map[carillon.Key]bool{}
	for i, job := range jobs {
		if gone[i] {
			deleted[job] = true
		}
	}
	if err != nil {
		return nil, partly(err, len(deleted))
	}
	answer := &pb.DeleteRangeResponse{Header: s.header(0)}
	for _, r := range records {
		if !deleted[r.job] {
			continue
		}
		answer.Deleted++
		if m.GetPrevKv() {
			answer.PrevKvs = append(answer.PrevKvs, r.KeyValue)
		}
	}
	return answer, nil
}

// partly says in an error how many jobs were deleted before it.
func partly(err error, deleted int) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || deleted == 0 {
		return err
	}
	marked := *e
	marked.Message += fmt.Sprintf("; jobs deleted before: %d", deleted)
	return &marked
}

// victims returns the records in a range, by key, and the jobs that they are of. A counter alone is refused:
// it goes with its job.
func (s *Service) victims(ctx context.Context, m *pb.DeleteRangeRequest, left *int) (
	records []found, jobs []carillon.Key, err error) {
	counted := map[carillon.Key]string{}
	err = s.each(ctx, spanOf(m.GetKey(), m.GetRangeEnd()), m.GetPrevKv(), func(item found) error {
		key := string(item.Key)
		switch {
		case item.job.Name == "":
			return errSchedulers(key)
		case strings.HasPrefix(key, daprrecord.CounterPrefix):
			counted[item.job] = key
		default:
			jobs = append(jobs, item.job)
		}
		records = append(records, item)
		if *left -= sizeOf(item.KeyValue); *left < 0 {
			return status.Error(codes.ResourceExhausted,
				"the range has too many keys: delete fewer at a time, with a longer prefix")
		}
		return nil
	})
	for _, job := range jobs {
		delete(counted, job)
	}
	for _, key := range counted {
		if err == nil {
			err = status.Errorf(codes.FailedPrecondition, "key %q: a counter goes with its job: delete that, under %s",
				clip(key), daprrecord.JobPrefix)
		}
	}
	slices.SortFunc(records, func(a, b found) int { return bytes.Compare(a.Key, b.Key) })
	return records, jobs, err
}

// remove deletes the job of a name in Dapr's keys, if there is one.
func (s *Service) remove(ctx context.Context, name string) error {
	job, err := s.jobOf(ctx, name)
	if err != nil || job == nil {
		return err
	}
	_, err = s.jobs.DeleteJob(ctx, job.Key())
	return unless(carillon.NotFound, err)
}

// writers is how many jobs a call changes at a time: they become durable together.
const writers = 64

// sideBySide calls f for 0 … n-1, several at a time, and returns the first error.
func sideBySide(n int, f func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(writers)
	var failed atomic.Bool
	for i := 0; i < n && !failed.Load(); i++ {
		group.Go(func() error {
			err := f(i)
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return group.Wait()
}
