package payload_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/payload"
)

// behind is what an edge passes calls on to. Each call must find the payloads that it refers to.
type behind struct {
	carillon.Jobs
	carillon.Runs
	t     *testing.T
	store *payload.Store
	got   []carillon.Data
	of    carillon.Job // that GetJob returns
}

func (b *behind) see(namespace string, d carillon.Data) {
	b.t.Helper()
	if b.got = append(b.got, d); d.Ref == nil {
		return
	}
	if _, err := read(context.Background(), b.store, payload.Namespace(namespace), *d.Ref); err != nil {
		b.t.Errorf("a call refers to what is not there: %v", err)
	}
}

func (b *behind) PutJob(_ context.Context, j carillon.Job, _ ...carillon.PutOption) (carillon.PutResult, error) {
	b.see(j.Namespace, j.Data)
	return carillon.PutResult{}, nil
}

func (b *behind) PutJobs(_ context.Context, all []carillon.Job) ([]carillon.PutResult, error) {
	for i := range all {
		b.see(all[i].Namespace, all[i].Data)
	}
	return nil, nil
}

func (b *behind) PatchJob(_ context.Context, k carillon.Key, p carillon.Patch) (carillon.PutResult, error) {
	b.see(k.Namespace, p.Job.Data)
	return carillon.PutResult{}, nil
}

func (b *behind) GetJob(context.Context, carillon.Key) (carillon.Job, error) { return b.of, nil }

func (b *behind) TriggerJob(_ context.Context, k carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	b.see(k.Namespace, *carillon.TriggerOptions{}.With(opts...).Data)
	return carillon.Run{}, nil
}

// puts are the calls that data comes in by.
func puts(e payload.Edge, b *behind) map[string]func(ctx context.Context, d carillon.Data) error {
	jobs, runs := e.Jobs(b), e.Runs(b, b)
	key := carillon.Key{Namespace: "ns", Name: "x"}
	job := func(d carillon.Data) carillon.Job {
		return carillon.Job{Namespace: "ns", Name: "x", Target: b.of.Target, Data: d}
	}
	return map[string]func(context.Context, carillon.Data) error{
		"put": func(ctx context.Context, d carillon.Data) error {
			_, err := jobs.PutJob(ctx, job(d))
			return err
		},
		"batch": func(ctx context.Context, d carillon.Data) error {
			_, err := jobs.PutJobs(ctx, []carillon.Job{job(d)})
			return err
		},
		"patch": func(ctx context.Context, d carillon.Data) error {
			_, err := jobs.PatchJob(ctx, key, carillon.Patch{Fields: []string{"data"}, Job: carillon.Job{Data: d}})
			return err
		},
		"trigger": func(ctx context.Context, d carillon.Data) error {
			_, err := runs.TriggerJob(ctx, key, carillon.TriggerOptions{Data: &d})
			return err
		},
	}
}

// TestANamespaceIsNoPath: it is part of the names of objects, so one that is none is refused before anything is
// stored or read.
func TestANamespaceIsNoPath(t *testing.T) {
	dir := t.TempDir()
	store := open(t, payload.Options{URL: "file:" + dir})
	ref, err := store.PutBytes(t.Context(), "victim", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	b := &behind{t: t, store: store, of: carillon.Job{Target: carillon.WorkerQueue("q")}}
	e := payload.Edge{Store: store, Above: 1, Bounds: carillon.DefaultBounds()}
	key := carillon.Key{Namespace: "a/../victim", Name: "x"}
	for _, d := range []carillon.Data{{Ref: &ref}, {Bytes: []byte("large")}} {
		_, patched := e.Jobs(b).PatchJob(t.Context(), key, carillon.Patch{Fields: []string{"data"}, Job: carillon.Job{Data: d}})
		_, run := e.Runs(b, b).TriggerJob(t.Context(), key, carillon.TriggerOptions{Data: &d})
		_, put := store.PutBytes(t.Context(), key.Namespace, []byte("y"))
		_, ensured := store.Ensure(t.Context(), key.Namespace, ref)
		for i, err := range []error{patched, run, put, ensured} {
			if !errors.Is(err, carillon.InvalidArgument) || !strings.Contains(err.Error(), "namespace") {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
	if n := len(files(t, dir)); n != 1 {
		t.Errorf("%d objects are there, want 1", n)
	}
}

// TestLargeDataIsStoredApart before the call goes on, and other data stays as it is.
func TestLargeDataIsStoredApart(t *testing.T) {
	const above = 100
	store := open(t, payload.Options{URL: "file:" + t.TempDir()})
	b := &behind{t: t, store: store, of: carillon.Job{Target: carillon.WorkerQueue("q")}}
	for name, put := range puts(payload.Edge{Store: store, Above: above, Bounds: carillon.DefaultBounds()}, b) {
		for size, apart := range map[int]bool{0: false, above: false, above + 1: true} {
			b.got = nil
			if err := put(t.Context(), carillon.Bytes(some(size), "text/plain")); err != nil {
				t.Fatal(name, err)
			}
			d := b.got[0]
			if (d.Ref != nil) != apart || d.Len() != int64(size) || apart && d.Bytes != nil || d.ContentType != "text/plain" {
				t.Errorf("%s of %d bytes: %+v", name, size, d)
			}
		}
	}
}

// TestJobsOfDaprKeepTheirData: a sidecar gets it with each run.
func TestJobsOfDaprKeepTheirData(t *testing.T) {
	store := open(t, payload.Options{URL: "file:" + t.TempDir()})
	b := &behind{t: t, store: store,
		of: carillon.Job{Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "a"}}}}
	for name, put := range puts(payload.Edge{Store: store, Bounds: carillon.DefaultBounds()}, b) {
		b.got = nil
		if err := put(t.Context(), carillon.Bytes(some(10), "")); err != nil || b.got[0].Ref != nil {
			t.Errorf("%s: %+v, %v", name, b.got, err)
		}
	}
}

// TestWhatCannotBeStoredIsNotPut: nothing has changed, and the caller knows why.
func TestWhatCannotBeStoredIsNotPut(t *testing.T) {
	dir := t.TempDir()
	store := open(t, payload.Options{URL: "file:" + dir})
	stored, err := store.PutBytes(t.Context(), "elsewhere", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	b := &behind{t: t, store: store, of: carillon.Job{Target: carillon.WorkerQueue("q")}}
	bounds := carillon.DefaultBounds()
	bounds.Payload = 1000
	calls := puts(payload.Edge{Store: store, Bounds: bounds}, b)
	for name, put := range calls {
		err := put(t.Context(), carillon.Data{Ref: &stored})
		if !errors.Is(err, carillon.NotFound) || !strings.Contains(err.Error(), "payload") {
			t.Errorf("%s with a reference of another namespace: %v", name, err)
		}
		if err := put(t.Context(), carillon.Bytes(some(1001), "")); err == nil {
			t.Errorf("%s of more than may be passes", name)
		}
	}
	if n := len(files(t, dir)); n != 1 {
		t.Errorf("%d objects are there: what is refused is stored", n)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, put := range calls {
		if err := put(t.Context(), carillon.Bytes([]byte("y"), "")); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("%s while the store is away: %v", name, err)
		}
	}
	for name, put := range puts(payload.Edge{Bounds: bounds}, b) {
		if err := put(t.Context(), carillon.Data{Ref: &stored}); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("%s with a reference, without a store: %v", name, err)
		}
	}
	if len(b.got) != 0 {
		t.Errorf("calls went on: %+v", b.got)
	}
}

// TestABatchNamesTheJob that is wrong.
func TestABatchNamesTheJob(t *testing.T) {
	store := open(t, payload.Options{URL: "file:" + t.TempDir()})
	b := &behind{t: t, store: store}
	job := carillon.Job{Name: "x", Target: carillon.WorkerQueue("q")}
	wrong := job
	wrong.Name, wrong.Data.Ref = "y", &carillon.PayloadRef{Day: 1, Size: 1}
	_, err := payload.Edge{Store: store}.Jobs(b).PutJobs(t.Context(), []carillon.Job{job, wrong})
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.NotFound || e.Field != "jobs[1].payload" {
		t.Errorf("%v", err)
	}
}
