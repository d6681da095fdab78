package daprmove_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprmove"
	"github.com/carillonhq/carillon/server/internal/etcdapi"
)

// TestWhatComesInGoesBack: a state that was imported is exported as the same, and again after some runs as what Dapr's
// scheduler would have by then.
func TestWhatComesInGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		begun := time.Now()
		state, fires := some()
		_, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
		check(t, err)
		back, err := daprmove.Collect(t.Context(), n.Scheduler(), nil)
		check(t, err)
		if digest(t, back) != digest(t, state) || len(back.Faults) > 0 {
			t.Errorf("%v came in, %v and %v go back", digest(t, state), digest(t, back), back.Faults)
		}
		had := connect(t, n)
		time.Sleep(time.Minute)
		synctest.Wait()
		file, err := daprmove.Collect(t.Context(), n.Scheduler(), []string{"default"})
		check(t, err)
		file, err = daprmove.WriteFile(filepath.Join(t.TempDir(), "jobs"), file)
		check(t, err)
		other := node(t)
		report, err := daprmove.Import(t.Context(), other.Scheduler(), file, silent)
		check(t, err)
		if !report.Whole() || report.Here.Jobs != 1 {
			t.Errorf("the report is %+v", report)
		}
		for name, offsets := range fires { // what was due until now ran here, the rest runs there
			var kept []int
			for _, o := range offsets {
				if o <= 120 {
					kept = append(kept, o)
				}
			}
			fires[name] = kept
		}
		had.want(t, begun, fires)
		there := connect(t, other)
		time.Sleep(3*time.Minute - time.Second)
		synctest.Wait()
		there.want(t, begun, map[string][]int{"phase": {132, 177, 222, 267}})
	})
}

// TestAllNamespacesGoBack: without a word about namespaces the jobs of all of them go back, also of those that no
// import brought; with one, only theirs.
func TestAllNamespacesGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		state, _ := some()
		_, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
		check(t, err)
		job, err := n.Scheduler().GetJob(t.Context(), carillon.Key{Name: "dapr/app/app/soon"})
		check(t, err)
		job.Status = nil
		for _, job.Namespace = range []string{"shop", "Billing"} {
			_, err = n.Scheduler().PutJob(t.Context(), job)
			check(t, err)
		}
		for _, c := range []struct {
			namespaces []string
			want       int
			origin     string
		}{
			{nil, len(state.Records) + 2, "namespaces Billing, default, shop"},
			{[]string{"shop"}, 1, "namespaces shop"},
			{[]string{"shop", "Billing"}, 2, "namespaces Billing, shop"},
			{[]string{"none"}, 0, "namespaces none"},
		} {
			got, err := daprmove.Collect(t.Context(), n.Scheduler(), c.namespaces)
			check(t, err)
			if len(got.Records) != c.want || len(got.Faults) > 0 || got.Origin != c.origin {
				t.Errorf("of %v go back %d of %q: %v", c.namespaces, len(got.Records), got.Origin, got.Faults)
			}
		}
	})
}

func TestJobsThatDaprCannotHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		state, _ := some()
		_, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
		check(t, err)
		_, err = n.Scheduler().PutJob(t.Context(), carillon.Job{Name: "mine", Target: carillon.WorkerQueue("q"),
			Due: carillon.In(time.Hour)})
		check(t, err)
		_, err = n.Scheduler().SetPaused(t.Context(), carillon.Key{Name: "dapr/app/app/soon"}, carillon.PauseOptions{Paused: true})
		check(t, err)
		back, err := daprmove.Collect(t.Context(), n.Scheduler(), nil)
		check(t, err)
		if len(back.Records) != 4 || len(back.Faults) != 1 ||
			!strings.Contains(back.Faults[0].Error(), "soon: invalid_argument: paused: Dapr has no word") {
			t.Errorf("%d go back, not %v", len(back.Records), back.Faults)
		}
	})
}

func TestFilesAreNotReplaced(t *testing.T) {
	state, _ := some()
	path := filepath.Join(t.TempDir(), "jobs")
	written, err := daprmove.WriteFile(path, state)
	check(t, err)
	if digest(t, written) != digest(t, state) {
		t.Errorf("%v is written as %v", digest(t, state), digest(t, written))
	}
	if _, err := daprmove.WriteFile(path, state); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("it is written again: %v", err)
	}
}

// A node of Carillon answers as the etcd of Dapr's scheduler would, by default at the same port.
func TestANodeIsNoTarget(t *testing.T) {
	n := node(t)
	s := grpc.NewServer()
	stop := etcdapi.Serve(n, s, etcdapi.Options{})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		stop()
		s.Stop()
		check(t, <-ended)
	})
	state, _ := some()
	at := "http://" + l.Addr().String()
	if _, err := daprmove.WriteEtcd(t.Context(), []string{at}, daprmove.Access{}, state,
		daprmove.EtcdOptions{Replace: true, WhileRunning: true}, silent); err == nil ||
		!strings.Contains(err.Error(), "a node of Carillon") {
		t.Errorf("jobs are written to a node: %v", err)
	}
	secret := []string{"http://user:secret@127.0.0.1:1"}
	_, err = daprmove.WriteEtcd(t.Context(), secret, daprmove.Access{}, state, daprmove.EtcdOptions{}, silent)
	_, also := daprmove.Read(t.Context(), secret, daprmove.Access{})
	for _, err := range []error{err, also} {
		if err == nil || !strings.Contains(err.Error(), "CARILLON_ETCD_PASSWORD") || strings.Contains(err.Error(), "secret") {
			t.Errorf("an address with a password: %v", err)
		}
	}
}

func TestALiveEtcdIsMadeEqual(t *testing.T) {
	at := []string{etcd(t)}
	none := daprmove.Access{}
	state, _ := some()
	for range 2 {
		there, err := daprmove.WriteEtcd(t.Context(), at, none, state, daprmove.EtcdOptions{}, silent)
		check(t, err)
		if digest(t, there) != digest(t, state) {
			t.Errorf("%v is written as %v", digest(t, state), digest(t, there))
		}
	}
	read, err := daprmove.Read(t.Context(), at, none)
	check(t, err)
	if digest(t, read) != digest(t, state) {
		t.Errorf("%v is read as %v", digest(t, state), digest(t, read))
	}
	fewer := &daprmove.State{Records: state.Records[:2]}
	if _, err := daprmove.WriteEtcd(t.Context(), at, none, fewer, daprmove.EtcdOptions{}, silent); err == nil ||
		!strings.Contains(err.Error(), "--replace") {
		t.Errorf("jobs were removed: %v", err)
	}
	there, err := daprmove.WriteEtcd(t.Context(), at, none, fewer,
		daprmove.EtcdOptions{Replace: true}, silent)
	check(t, err)
	if digest(t, there) != digest(t, fewer) {
		t.Errorf("%v is there", digest(t, there))
	}

	c, err := clientv3.New(clientv3.Config{Endpoints: at})
	check(t, err)
	defer c.Close()
	got, err := c.Get(t.Context(), "dapr/jobs/", clientv3.WithPrefix())
	check(t, err)
	if len(got.Kvs) != 2 || got.Kvs[0].GetModRevision() == got.Kvs[1].GetModRevision() {
		t.Errorf("jobs were written at once, and Dapr's scheduler would take one for the other: %v", got.Kvs)
	}
	const broken = "dapr/jobs/app||default||app||broken"
	_, err = c.Put(t.Context(), broken, "no record")
	check(t, err)
	there, err = daprmove.WriteEtcd(t.Context(), at, none, fewer, daprmove.EtcdOptions{Replace: true}, silent)
	check(t, err)
	if len(there.Faults) != 1 || there.Faults[0].Key != broken {
		t.Errorf("what could not be read is not left where it is: %v", there.Faults)
	}
	_, err = c.Delete(t.Context(), broken)
	check(t, err)
	elsewhere, err := daprmove.Collect(t.Context(), node(t).Scheduler(), []string{"elsewhere"})
	check(t, err)
	if _, err := daprmove.WriteEtcd(t.Context(), at, none, elsewhere, daprmove.EtcdOptions{Replace: true}, silent); err == nil ||
		!strings.Contains(err.Error(), "namespace default") {
		t.Errorf("jobs of a namespace that was not exported were removed: %v", err)
	}
	_, err = c.Put(t.Context(), "dapr/leadership/s-0", "")
	check(t, err)
	if _, err := daprmove.WriteEtcd(t.Context(), at, none, state, daprmove.EtcdOptions{}, silent); !errors.Is(err, daprmove.ErrRunning) {
		t.Errorf("a scheduler is at work: %v", err)
	}
	_, err = daprmove.WriteEtcd(t.Context(), at, none, fewer, daprmove.EtcdOptions{WhileRunning: true}, silent)
	check(t, err)
	if read, err := daprmove.Read(t.Context(), at, none); err != nil || len(read.Running) != 1 {
		t.Errorf("%v run: %v", read.Running, err)
	}
}
