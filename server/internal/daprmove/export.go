package daprmove

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// Source is what jobs are collected from.
type Source interface {
	carillon.Jobs
	ListNamespaces(ctx context.Context, q carillon.NamespaceQuery) (carillon.NamespacePage, error)
}

// Collect reads all jobs of Dapr's: in the namespaces given, or, if none is, in all. What Dapr's scheduler
// cannot have is among the faults of the state.
func Collect(ctx context.Context, jobs Source, namespaces []string) (*State, error) {
	known, err := imported(ctx, jobs) // also of what has ended since: it goes there as well
	if err != nil {
		return nil, err
	}
	if len(namespaces) == 0 {
		err = addAll(ctx, jobs, known)
	} else {
		clear(known)
	}
	if err != nil {
		return nil, err
	}
	for _, n := range namespaces {
		known[n] = true
	}
	s := &State{namespaces: known, Origin: "namespaces " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")}
	for _, namespace := range slices.Sorted(maps.Keys(known)) {
		err := eachJob(ctx, once, jobs, namespace, func(job *carillon.Job) {
			r, err := daprrecord.FromJob(job)
			switch {
			case errors.Is(err, daprrecord.ErrOver):
				s.Over++
			case err != nil:
				s.Faults = append(s.Faults, Fault{job.Key().String(), err})
			default:
				s.Records = append(s.Records, r)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range s.Records {
		if err := s.Records[i].BeginAtNext(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Records[i].Name, err)
		}
	}
	return s, nil
}

// addAll adds the namespaces that hold anything, and the default one.
func addAll(ctx context.Context, jobs Source, known map[string]bool) error {
	known[carillon.DefaultNamespace] = true
	for q := (carillon.NamespaceQuery{PageSize: page}); ; {
		got, err := jobs.ListNamespaces(ctx, q)
		if err != nil {
			return err
		}
		for i := range got.Namespaces {
			known[got.Namespaces[i].Name] = true
		}
		if q.PageToken = got.NextPageToken; q.PageToken == "" {
			return nil
		}
	}
}

// imported returns the namespaces that the marks of imports name. An import that has not ended is an error:
// its jobs are here by half.
func imported(ctx context.Context, jobs carillon.Jobs) (map[string]bool, error) {
	found := map[string]bool{}
	q := carillon.JobQuery{Prefix: MarkPrefix, PageSize: page}
	for {
		got, err := jobs.ListJobs(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range got.Jobs {
			m, err := markOf(&got.Jobs[i])
			if err != nil {
				return nil, err
			}
			if m.Phase != done {
				return nil, fmt.Errorf("an import of %s has not ended: make it again first", m.Origin)
			}
			for _, n := range m.Namespaces {
				found[n] = true
			}
		}
		if q.PageToken = got.NextPageToken; q.PageToken == "" {
			return found, nil
		}
	}
}

func once(ctx context.Context, f func(context.Context) error) error { return f(ctx) }

// encode returns what is stored, by whole keys.
func (s *State) encode() (raw, error) {
	r := raw{make(map[string][]byte, len(s.Records)), map[string][]byte{}}
	for i := range s.Records {
		job, counter, err := s.Records[i].Encode()
		if err != nil {
			return r, fmt.Errorf("%s: %w", s.Records[i].Name, err)
		}
		r.jobs[daprrecord.JobPrefix+s.Records[i].Name] = job
		if counter != nil {
			r.counters[daprrecord.CounterPrefix+s.Records[i].Name] = counter
		}
	}
	return r, nil
}

// WriteFile writes a state as a new file that `dapr scheduler import` takes, and reads it again.
func WriteFile(path string, s *State) (*State, error) {
	content, err := s.encode()
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s is there already: give the name of a new file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	err = gob.NewEncoder(f).Encode(exported{content.jobs, content.counters})
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path) // which never replaces one
	}
	err = errors.Join(err, os.Remove(f.Name()))
	if err != nil {
		return nil, err
	}
	return readFile(path)
}

// EtcdOptions say what may happen to a live etcd.
type EtcdOptions struct {
	Replace      bool // jobs there that are not wanted are removed; otherwise they are an error
	WhileRunning bool // a scheduler may be at work on it
}

// WriteEtcd makes a live etcd have exactly the jobs of a state, and reads it again. It may be ended at any
// moment and made again.
func WriteEtcd(ctx context.Context, endpoints []string, a Access, s *State, o EtcdOptions,
	told Progress) (*State, error) {
	if err := noPasswords(endpoints); err != nil {
		return nil, err
	}
	c, explain, err := liveEtcd(ctx, endpoints, a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(endpoints, ","), err)
	}
	defer c.Close()
	there, err := stateOf(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(endpoints, ","), explain(err))
	}
	if there.Cluster == strconv.FormatUint(daprrecord.ClusterOfCarillon, 16) {
		return nil, fmt.Errorf("%s: this is a node of Carillon, which answers as an etcd would; give the etcd of Dapr's scheduler",
			strings.Join(endpoints, ","))
	}
	if err := s.covers(there); err != nil {
		return nil, err
	}
	if len(there.Running) > 0 && !o.WhileRunning {
		return nil, fmt.Errorf("%w: %s; stop it, or if the etcd is its own, give --while-running", ErrRunning, strings.Join(there.Running, ", "))
	}
	wanted, err := s.encode()
	if err != nil {
		return nil, err
	}
	if err := writeAll(ctx, c, wanted, there.faulty(), o.Replace, told); err != nil {
		return nil, err
	}
	return stateOf(ctx, c)
}

// covers returns an error if the other state has jobs of namespaces that this one was not collected from.
// They would go, or fire as they were long ago.
func (s *State) covers(there *State) error {
	if s.namespaces == nil {
		return nil
	}
	for i := range there.Records {
		job, err := there.Records[i].ToJob()
		if err != nil {
			return err
		}
		if !s.namespaces[job.Namespace] {
			return fmt.Errorf("there are jobs of the namespace %s, such as %s, which is not exported: name it too (--namespaces)",
				job.Namespace, job.Name)
		}
	}
	return nil
}

// faulty returns the keys of what cannot be understood. It is left where it is.
func (s *State) faulty() map[string]bool {
	keys := map[string]bool{}
	for _, f := range s.Faults {
		keys[f.Key] = true
	}
	return keys
}

// writeAll writes the jobs, then removes what is not wanted, but for what is to be kept. A job is written
// together with its counter, so that a scheduler never sees it without, and with no other job: Dapr's
// scheduler tells jobs by the revision at which they were written, and mixes up those that have the same one.
func writeAll(ctx context.Context, c *clientv3.Client, wanted raw, keep map[string]bool, replace bool,
	told Progress) error {
	old, err := c.Get(ctx, daprrecord.JobPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	var gone []string
	for _, kv := range old.Kvs {
		if key := string(kv.GetKey()); wanted.jobs[key] == nil && !keep[key] {
			gone = append(gone, key)
		}
	}
	if len(gone) > 0 && !replace {
		return fmt.Errorf("there are %d jobs that are not here, such as %s: give --replace to have them removed", len(gone),
			gone[0])
	}
	keys := append(slices.Sorted(maps.Keys(wanted.jobs)), gone...)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for i, key := range keys {
		if ctx.Err() != nil {
			break
		}
		told("writing jobs", i, len(keys))
		g.Go(func() error {
			_, err := c.Txn(ctx).Then(writes(key, wanted)...).Commit()
			return err
		})
	}
	return g.Wait()
}

// writes returns what makes a job and its counter as they are wanted.
func writes(key string, wanted raw) []clientv3.Op {
	counter := daprrecord.CounterPrefix + strings.TrimPrefix(key, daprrecord.JobPrefix)
	ops := []clientv3.Op{clientv3.OpDelete(counter)}
	if v := wanted.counters[counter]; v != nil {
		ops[0] = clientv3.OpPut(counter, string(v))
	}
	if v := wanted.jobs[key]; v != nil {
		return append(ops, clientv3.OpPut(key, string(v)))
	}
	return append(ops, clientv3.OpDelete(key))
}
