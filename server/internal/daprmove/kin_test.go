package daprmove_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprmove"
	"github.com/carillonhq/carillon/server/internal/daprrecord"

	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
)

// schedule writes jobs to an etcd as Dapr's scheduler would.
func schedule(t *testing.T, address string, id uint64, names ...string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: time.Minute})
	check(t, err)
	defer c.Close()
	every := "@every 1h"
	for _, name := range names {
		r := record(name, &cronpb.JobSpec{Schedule: &every}, time.Now(), false)
		r.Job.PartitionId = id
		b, err := proto.Marshal(r.Job)
		check(t, err)
		_, err = c.Put(t.Context(), daprrecord.JobPrefix+r.Name, string(b))
		check(t, err)
	}
}

func read(t *testing.T, sources ...string) *daprmove.State {
	t.Helper()
	s, err := daprmove.Read(t.Context(), sources, daprmove.Access{})
	check(t, err)
	return s
}

// TestTwoSchedulersWithTheSameFlags: their etcds have the same id. They are not taken for members of one, and each comes
// in, but no second state of either.
func TestTwoSchedulersWithTheSameFlags(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	var first, then []*daprmove.State
	t.Run("etcds", func(t *testing.T) {
		for i, dir := range dirs {
			address := etcdIn(t, dir)
			schedule(t, address, uint64(i+1), fmt.Sprint("only", i), "both")
			first = append(first, read(t, address))
			schedule(t, address, uint64(i+10), fmt.Sprint("later", i))
		}
	})
	for _, dir := range dirs {
		then = append(then, read(t, dir))
	}
	if first[0].Cluster != first[1].Cluster {
		t.Fatal("the etcds have two ids")
	}
	if _, err := daprmove.Read(t.Context(), dirs, daprmove.Access{}); err == nil ||
		!strings.Contains(err.Error(), "are of two schedulers") {
		t.Errorf("both are read as one: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		for i, want := range []int{2, 1} { // "both" is here already when the second comes
			report, err := daprmove.Import(t.Context(), n.Scheduler(), first[i], silent)
			check(t, err)
			if report.Before || report.Here.Jobs != want {
				t.Errorf("scheduler %d: the report is %+v", i, report)
			}
		}
		for i := range then {
			if _, err := daprmove.Import(t.Context(), n.Scheduler(), then[i], silent); !errors.Is(err, daprmove.ErrOtherState) {
				t.Errorf("a later state of scheduler %d comes in: %v", i, err)
			}
			report, err := daprmove.Import(t.Context(), n.Scheduler(), first[i], silent)
			check(t, err)
			if !report.Before {
				t.Errorf("the state of scheduler %d comes in again", i)
			}
		}
	})
}

// TestWhatCannotBeToldIsRefused: nothing in the second state is as old as the first, and no clock helps.
func TestWhatCannotBeToldIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		one, _ := some()
		one.Cluster, one.History = "1", daprmove.History{Revision: 10, Until: 10}
		_, err := daprmove.Import(t.Context(), n.Scheduler(), one, silent)
		check(t, err)
		two, _ := some()
		two.ID, two.Cluster, two.History = "two", "1", daprmove.History{Revision: 1000, Until: 1000}
		_, err = daprmove.Import(t.Context(), n.Scheduler(), two, silent)
		if !errors.Is(err, daprmove.ErrOtherState) || !strings.Contains(err.Error(), "delete the job dapr-import/1") {
			t.Errorf("it comes in: %v", err)
		}
	})
}

// histories are those of two schedulers whose etcds have the same id.
var histories = []string{`{"revision": 10, "until": 10, "records": [{"k": 1, "v": 1, "c": 3, "m": 3}]}`,
	`{"revision": 20, "until": 20, "records": [{"k": 2, "v": 2, "c": 4, "m": 4}]}`}

// twoSchedulers are states of two schedulers whose etcds have the same id.
func twoSchedulers(t *testing.T) (states []*daprmove.State) {
	t.Helper()
	for i, history := range histories {
		at := time.Now().Add(time.Hour)
		s := &daprmove.State{ID: fmt.Sprint("of", i), Origin: fmt.Sprint("scheduler ", i), Cluster: "1"}
		for j := range 3 {
			s.Records = append(s.Records, record(fmt.Sprint("of", i, "-", j), &cronpb.JobSpec{DueTime: new("1s")}, at, true))
		}
		check(t, json.Unmarshal([]byte(history), &s.History))
		states = append(states, s)
	}
	return states
}

// late is a node's API for an import that is held up after it has looked at the marks.
type late struct {
	carillon.Scheduler
	meanwhile func()
	once      sync.Once
}

// ListJobs implements [carillon.Jobs].
func (l *late) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	page, err := l.Scheduler.ListJobs(ctx, q)
	l.once.Do(l.meanwhile)
	return page, err
}

// TestAMarkOfAnotherSchedulerIsNotTakenOver, whatever its import was doing when it was cut off, even if that began after this
// one had looked whose marks there are: both schedulers' jobs come in whole.
func TestAMarkOfAnotherSchedulerIsNotTakenOver(t *testing.T) {
	for _, stage := range []string{"putting", "comparing", "letting"} {
		synctest.Test(t, func(t *testing.T) {
			n := node(t)
			states := twoSchedulers(t)
			slow := &late{Scheduler: n.Scheduler(), meanwhile: func() { cutOff(t, n, states[0], stage, 1) }}
			for i, jobs := range []carillon.Jobs{slow, n.Scheduler()} {
				report, err := daprmove.Import(t.Context(), jobs, states[1-i], silent)
				check(t, err)
				if !report.Whole() || report.TakenBack > 0 {
					t.Errorf("%s: scheduler %d: %+v", stage, 1-i, report)
				}
			}
			if got := jobsOf(t, n); len(got) != 6 {
				t.Errorf("%s: here are %v", stage, got)
			}
		})
	}
}

// TestWhatHasGoneBeforeItIsLetGo is named, and what somebody pauses in that moment stays paused.
func TestWhatHasGoneBeforeItIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		state := twoSchedulers(t)[0]
		key := func(i int) carillon.Key {
			return carillon.Key{Namespace: "default", Name: fmt.Sprint("dapr/app/app/of0-", i)}
		}
		var gone, paused sync.Once
		report, err := daprmove.Import(t.Context(), n.Scheduler(), state, func(what string, _, _ int) {
			switch what {
			case "comparing":
				gone.Do(func() {
					_, err := n.Scheduler().DeleteJob(t.Context(), key(0))
					check(t, err)
				})
			case "letting jobs go": // they are listed
				paused.Do(func() {
					_, err := n.Scheduler().SetPaused(t.Context(), key(1), carillon.PauseOptions{Paused: true, Note: "mine"})
					check(t, err)
				})
			}
		})
		check(t, err)
		if report.Whole() || report.Left != 1 || len(report.Faults) != 1 || !strings.Contains(report.Faults[0].Error(), "deleted") {
			t.Errorf("%+v", report)
		}
		for i, want := range []bool{1: true, 2: false} {
			if job, err := n.Scheduler().GetJob(t.Context(), key(i)); i > 0 && (err != nil || job.Paused != want) {
				t.Errorf("job %d: paused %v, %v", i, job.Paused, err)
			}
		}
	})
}

// TestMembersOfOneCluster: the newest of them counts, however far the others are behind.
func TestMembersOfOneCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	var configs []*embed.Config
	var members []string
	var dirs []string
	for i := range 3 {
		c := embed.NewConfig()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		check(t, err)
		peer := url.URL{Scheme: "http", Host: l.Addr().String()}
		c.Name, c.Dir = fmt.Sprint("m", i), t.TempDir()
		c.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
		c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		members, dirs, configs = append(members, c.Name+"="+peer.String()), append(dirs, c.Dir), append(configs, c)
		check(t, l.Close())
	}
	var all []*embed.Etcd
	for _, c := range configs {
		c.InitialCluster = strings.Join(members, ",")
		all = append(all, started(t, c))
	}
	for _, e := range all {
		<-e.Server.ReadyNotify()
	}
	at := func(member int) string { return "http://" + all[member].Clients[0].Addr().String() }
	schedule(t, at(2), 1, "a", "b", "c") // it answers when it has them itself
	all[2].Close()
	schedule(t, at(0), 2, "a", "d")
	var ended sync.WaitGroup
	ended.Go(all[0].Close)
	ended.Go(all[1].Close)
	ended.Wait()
	together, newest, behind := read(t, dirs...), read(t, dirs[0]), read(t, dirs[2])
	if together.ID != newest.ID || len(together.Records) != 4 {
		t.Errorf("together they have %d jobs, the newest %d", len(together.Records), len(newest.Records))
	}
	if len(behind.Records) != 3 {
		t.Errorf("the member that left has %d jobs", len(behind.Records))
	}
}
