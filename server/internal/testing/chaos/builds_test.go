package chaos_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/worker"
)

var (
	builds = flag.Int("builds", 0, "how many older builds TestBuilds joins with today's; 0 = it is skipped")
	shelf  = flag.String("builds-folder", "",
		"where older builds are kept, by commit; default one in the user's cache")
	commits = flag.String("commits", "", "commits that TestBuilds takes, separated by commas, in place of those it picks")
)

// clusters are where builds that can be one of several nodes have this file, before and since there are two
// modules.
var clusters = []string{"internal/cluster/doc.go", "server/internal/cluster/doc.go"}

// repository is where the source of this package is.
const repository = "../../../.."

// git asks the repository.
func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository},
		args...)...).Output()
	if err != nil {
		t.Skipf("this test needs the project's history: git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// older are n commits at which work landed, newest first, evenly spread over those that have clusters.
func older(t *testing.T, n int) (picked []string) {
	t.Helper()
	if *commits != "" {
		for commit := range strings.SplitSeq(*commits, ",") {
			picked = append(picked, strings.TrimSpace(git(t, "rev-parse", commit+"^{commit}")))
		}
		return picked
	}
	var all []string
	for commit := range strings.FieldsSeq(git(t, "log", "--first-parent", "--format=%H", "HEAD~1", "--",
		".")) {
		if !slices.ContainsFunc(clusters, func(file string) bool {
			return exec.CommandContext(t.Context(), "git", "-C", repository, "cat-file", "-e",
				commit+":"+file).Run() == nil
		}) {
			break
		}
		all = append(all, commit)
	}
	for i := range min(n, len(all)) {
		picked = append(picked, all[i*len(all)/min(n, len(all))])
	}
	return picked
}

// shelfOf is the folder that builds are kept in.
func shelfOf(t *testing.T) string {
	t.Helper()
	if *shelf != "" {
		return *shelf
	}
	cache, err := os.UserCacheDir()
	must(t, err)
	return filepath.Join(cache, "carillon-builds")
}

// alone is what builds say of a second node that had flags for clusters before they had clusters.
const alone = "a store for several nodes is not supported yet"

// buildOf is the binary of a commit; "" if it does not build, or knows no clusters.
func buildOf(t *testing.T, commit string) string {
	t.Helper()
	folder := filepath.Join(shelfOf(t), commit)
	binary := filepath.Join(folder, "carillon")
	if _, err := os.Stat(binary); err != nil {
		source := t.TempDir()
		archive := exec.CommandContext(t.Context(), "git", "-C", repository, "archive", commit)
		unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", source)
		text, err := archive.Output()
		must(t, err)
		unpack.Stdin = bytes.NewReader(text)
		must(t, unpack.Run())
		must(t, os.MkdirAll(folder, 0o755))
		build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/carillon")
		build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=")
		if _, err := os.Stat(filepath.Join(source, "go.work")); err == nil {
			build.Dir = filepath.Join(source, "server")
		}
		if out, err := build.CombinedOutput(); err != nil {
			t.Logf("%.8s does not build: %v\n%.500s", commit, err, out)
			return ""
		}
	}
	program, err := os.ReadFile(binary)
	must(t, err)
	help, err := exec.CommandContext(t.Context(), binary, "serve", "--help").CombinedOutput()
	if err != nil || !bytes.Contains(help, []byte("--advertise")) || bytes.Contains(program, []byte(alone)) {
		t.Logf("%.8s knows no clusters", commit)
		return ""
	}
	return binary
}

// TestBuilds joins this build and older ones in one cluster, on each store, both ways: an older node comes to
// a store of today's, and today's to a store of an older node's. Whoever comes is refused with a reason, or
// everything goes on as if all were of one build. And today's node comes when all older ones have gone.
func TestBuilds(t *testing.T) {
	if *builds == 0 && *commits == "" {
		t.Skip("older builds take minutes to make: -builds 10, or make builds")
	}
	today := carillonBinary(t)
	for _, commit := range older(t, *builds) {
		old := buildOf(t, commit)
		if old == "" {
			continue
		}
		for name, backend := range map[string]func(testing.TB) chaos.Backend{
			"postgres": func(t testing.TB) chaos.Backend { return chaos.PostgresBackend(t) },
			"redis":    func(t testing.TB) chaos.Backend { return chaos.RedisBackend(t) },
		} {
			t.Run(fmt.Sprintf("%.8s on %s", commit, name), func(t *testing.T) {
				t.Run("it comes", func(t *testing.T) { join(t, backend(t), today, old) })
				t.Run("it is joined", func(t *testing.T) { join(t, backend(t), old, today) })
				t.Run("it is followed", func(t *testing.T) { follow(t, backend(t), old, today) })
			})
		}
	}
}

// reason is what a node says that refuses to be part of a cluster of another build.
var reason = regexp.MustCompile(`(?i)format|version|newer|older|upgrade|schema`)

// partitions are those of the stores of TestBuilds.
const partitions = 16

// two starts two nodes of one build.
func two(ctx context.Context, t *testing.T, b chaos.Backend,
	founder string) (*chaos.Cluster, []*chaos.Member) {
	t.Helper()
	c := chaos.NewCluster(chaos.ClusterConfig{Binary: founder, Store: b, Logs: logs(t),
		Flags: []string{"--partitions", fmt.Sprint(partitions), "--drain-grace", "2s"}})
	t.Cleanup(func() { must(t, c.Close()) })
	members, err := c.Start(ctx, 2)
	must(t, err)
	return c, members
}

// atMost is how long one cluster of TestBuilds takes.
const atMost = 3 * time.Minute

// follow starts two nodes of one build, ends both while jobs wait, and starts one of them as another build.
func follow(t *testing.T, b chaos.Backend, founder, comer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	_, members := two(ctx, t, b, founder)
	load := newLoad(t, members[0])
	load.put(ctx, members, "before")
	for _, m := range members {
		must(t, m.Leave(ctx))
	}
	members[0].Binary = comer
	must(t, members[0].Start())
	if !ready(ctx, t, members[0]) {
		return
	}
	must(t, members[1].Start()) // as it was
	if !ready(ctx, t, members[1]) {
		members = members[:1]
	}
	load.put(ctx, members, "after")
	load.done(ctx, "before", "after")
	load.once()
}

// join starts two nodes of one build, then a third of another.
func join(t *testing.T, b chaos.Backend, founder, comer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	c, members := two(ctx, t, b, founder)
	load := newLoad(t, members[0])
	load.put(ctx, members, "before")
	third, err := c.Add()
	must(t, err)
	third.Binary = comer
	must(t, third.Start())
	if ready(ctx, t, third) {
		members = append(members, third)
	} else if !third.Runs() {
		must(t, c.Remove(third))
	}
	load.put(ctx, members, "together")
	load.done(ctx, "before", "together")
	if len(members) == 3 {
		served(ctx, t, members, partitions)
		must(t, members[0].Leave(ctx)) // its partitions go to both builds
		load.put(ctx, members[1:], "without the first")
		load.done(ctx, "without the first")
		must(t, members[2].Leave(ctx))
		load.put(ctx, members[1:2], "without both")
		load.done(ctx, "without both")
	}
	load.once()
}

// ready reports whether a node that has come takes part. One that does not has ended, and says why; or it
// goes on and says that it is not ready, which must not hold up the others.
func ready(ctx context.Context, t *testing.T, m *chaos.Member) bool {
	t.Helper()
	coming, giveUp := context.WithTimeout(ctx, patience)
	defer giveUp()
	err := m.Ready(coming)
	switch {
	case err == nil:
		return true
	case m.Runs():
		t.Logf("not ready: %v", strings.SplitN(err.Error(), "\n", 2)[0])
	case reason.MatchString(m.Log()):
		t.Logf("refused: %s", reasonOf(m.Log()))
	default:
		t.Fatalf("it was refused without a reason: %v", err)
	}
	return false
}

// reasonOf is the last line of a log that has a reason.
func reasonOf(log string) (last string) {
	for line := range strings.Lines(log) {
		if reason.MatchString(line) {
			last = strings.TrimSpace(line)
		}
	}
	return last
}

// served waits until all partitions are.
func served(ctx context.Context, t *testing.T, members []*chaos.Member, partitions int) {
	t.Helper()
	s, err := chaos.OpenStore(ctx, members[0].Store, partitions)
	must(t, err)
	o := chaos.Observe(s, 0, nil)
	defer func() { must(t, o.Close()) }()
	names := map[string]bool{}
	for _, m := range members {
		names[m.Name] = true
	}
	must(t, o.Until(ctx, "all owned, by all", func(owners []store.Owner) bool {
		share := map[string]bool{}
		for _, x := range owners {
			share[x.Node] = true
		}
		return len(owners) == partitions && len(share) == len(names)
	}))
}

// load is jobs, and a worker that notes what it gets.
type load struct {
	t       *testing.T
	clients map[*chaos.Member]*client.Client

	mu   sync.Mutex
	seen map[string][]sched.Run // by job
	puts map[string]int         // by prefix
}

// newLoad connects a worker by one node.
func newLoad(t *testing.T, m *chaos.Member) *load {
	t.Helper()
	l := &load{t: t, clients: map[*chaos.Member]*client.Client{}, seen: map[string][]sched.Run{},
		puts: map[string]int{}}
	c, err := client.Dial(m.Front.Address())
	must(t, err)
	w := worker.New(c, worker.Options{ID: "worker", Concurrency: 50})
	worker.Handle(w, queue, func(_ context.Context, run sched.Run, _ []byte) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen[run.Job] = append(l.seen[run.Job], run)
		return nil
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the worker: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		must(t, c.Close())
		for _, c := range l.clients {
			must(t, c.Close())
		}
	})
	return l
}

// put puts jobs that are due at once or soon, through each of some nodes, and two that recur.
func (l *load) put(ctx context.Context, members []*chaos.Member, prefix string) {
	l.t.Helper()
	const each = 60
	for i, m := range members {
		if l.clients[m] == nil {
			c, err := client.Dial(m.Front.Address())
			must(l.t, err)
			l.clients[m] = c
		}
		var jobs []sched.Job
		for k := range each {
			jobs = append(jobs, sched.Job{Name: fmt.Sprintf("%s/%d/%d", prefix, i, k),
				Target: sched.WorkerQueue(queue),
				Due:    sched.In(time.Duration(k) * 50 * time.Millisecond)})
		}
		jobs = append(jobs, sched.Job{Name: fmt.Sprintf("%s/%d/recurring", prefix, i),
			Target:   sched.WorkerQueue(queue),
			Schedule: "@every 500ms", Repeats: 6, Misfire: sched.Misfire{Rule: sched.MisfireAll}})
		for _, part := range [][]sched.Job{jobs[:each/2], jobs[each/2:]} {
			_, err := l.clients[m].PutJobs(ctx, part)
			must(l.t, err)
		}
		l.puts[prefix] += len(jobs)
	}
}

// done waits until all jobs of some prefixes have run.
func (l *load) done(ctx context.Context, prefixes ...string) {
	l.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for _, prefix := range prefixes {
		for {
			n := 0
			l.mu.Lock()
			for job, runs := range l.seen {
				if strings.HasPrefix(job, prefix+"/") && (!strings.HasSuffix(job, "recurring") ||
					len(runs) >= 6) {
					n++
				}
			}
			l.mu.Unlock()
			if n == l.puts[prefix] {
				break
			}
			select {
			case <-look.C:
			case <-ctx.Done():
				l.t.Fatalf("%d of %d jobs %q have run", n, l.puts[prefix], prefix)
			}
		}
	}
}

// once checks that each run came once.
func (l *load) once() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for job, runs := range l.seen {
		ids := map[string]bool{}
		for _, r := range runs {
			ids[r.ID] = true
		}
		if len(ids) != len(runs) {
			l.t.Errorf("%s came %d times, of %d runs", job, len(runs), len(ids))
		}
	}
}
