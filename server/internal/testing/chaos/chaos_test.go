package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

var (
	cycles = flag.Int("cycles", 0, "how often something goes wrong in TestKill… and TestCluster…; 0 = as often as they do without being told")
	outage = flag.Bool("store-restarts", false,
		"in TestKillPostgres: also end the server of the store, while the node goes on")
	moveKills = flag.Int("kills", 0, "how often the command is killed in each move of TestMoves; 0 = it is drawn")
	ballast   = flag.Int("ballast", 0, "how many jobs of a far year the store of TestMoves has as well")
	rate      = flag.Int("rate", 0, "how many runs a second of jobs that nobody changes there are in TestMoves and TestKill…, besides all others")
	seed      = flag.Uint64("seed", 0, "what is drawn in TestKill… and TestCluster…; 0 = something else each time")
	given     = flag.String("binary", "", "the carillon to run; default one that is built from this source")
	out       = flag.String("out", "", "folder for the history and the verdict; default the test's artifacts")
	always    = flag.Bool("keep", false, "write the history and the verdict also of a campaign in which nothing was wrong")
)

// built is carillon, built once for all tests.
var built struct {
	once   sync.Once
	folder string
	binary string
	err    error
}

// workerOf is the environment variable that makes this program a worker, in place of tests.
const workerOf = "CARILLON_CHAOS_WORKER"

// workerCommand is a worker in a process of its own: this program once more.
func workerCommand(spec chaos.WorkerSpec) *exec.Cmd {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // words and a number
	}
	cmd := exec.Command(os.Args[0]) // the campaign ends it
	cmd.Env = append(os.Environ(), workerOf+"="+string(text))
	return cmd
}

func TestMain(m *testing.M) {
	if text := os.Getenv(workerOf); text != "" {
		var spec chaos.WorkerSpec
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			panic(err)
		}
		chaos.Work(context.Background(), spec, os.Stdin, os.Stdout)
		return
	}
	m.Run() // what it returns is how the process will end
	if built.folder != "" {
		_ = os.RemoveAll(built.folder) // what stays is in the system's folder for such things
	}
}

func carillonBinary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("processes are not for -short")
	}
	if *given != "" {
		return *given
	}
	built.once.Do(func() {
		built.folder, built.err = os.MkdirTemp("", "carillon-chaos-") //nolint:usetesting // all tests use it
		if built.err == nil {
			built.binary, built.err = chaos.Build(context.Background(), built.folder)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.binary
}

// killCycles is how often the node of TestKill is killed that is not told how often.
const killCycles = 5

// enoughCycles is how many it takes for everything to have happened.
const enoughCycles = 10

// TestKill kills a node under load, again and again; see the package's comment.
func TestKill(t *testing.T) {
	t.Parallel()
	campaign(t, chaos.Options{Binary: carillonBinary(t), Store: "pebble:" + filepath.Join(t.TempDir(),
		"store"), Cycles: often(killCycles)})
}

// often is how often something goes wrong, unless a flag says otherwise.
func often(n int) int { return cmp.Or(*cycles, n) }

// serverCycles is how often the node, or the server of its store, is ended: each of its lives takes longer.
const serverCycles = 3

// TestKillPostgres is TestKill on PostgreSQL. With -store-restarts its server is ended by force too, while
// the node goes on: an attempt that was not durable then is not cancelled, so a worker that never answers
// keeps its slot, and the campaign says so.
func TestKillPostgres(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	o := chaos.Options{Binary: binary, Store: server.Database(t), Cycles: often(serverCycles)}
	if *outage {
		o.Restart = func() {
			server.Crash(t)
			server.Up(t)
		}
	}
	campaign(t, o)
}

// movedCycles is how often something goes wrong in TestMoves; each move is one of them.
const movedCycles = 3

// TestMoves is TestKill on a store that moves again and again while the node serves it: from Pebble to
// PostgreSQL, to a bucket, and so on. The command that moves it is killed now and then.
func TestMoves(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	server, bucket := realserver.StartPostgres(t, realserver.Volatile()...), chaos.S3Backend(t)
	folder, made := t.TempDir(), 0
	fresh := func() string {
		made++
		switch made % 3 {
		case 1:
			return server.Database(t)
		case 2:
			at, query, _ := strings.Cut(bucket.URL, "?")
			return fmt.Sprintf("%s/%d?%s", at, made, query)
		}
		return fmt.Sprintf("pebble:%s/%d", folder, made)
	}
	campaign(t, chaos.Options{Binary: binary, Store: "pebble:" + filepath.Join(folder, "first"), Move: fresh,
		Cycles: often(movedCycles), Ballast: *ballast, Kills: *moveKills})
}

// TestKillRedis is TestKill on Redis, and with -store-restarts as above.
func TestKillRedis(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	server := realserver.StartRedis(t)
	o := chaos.Options{Binary: binary, Store: "redis://" + server.Address(), Cycles: often(serverCycles)}
	if *outage {
		o.Restart = func() {
			server.Crash(t)
			server.Up(t)
		}
	}
	campaign(t, o)
}

// TestKillEtcd is TestKill on an etcd of one member, and with -store-restarts as above; only with -cycles:
// TestClusterEmbeddedEtcd kills nodes on etcd as well.
func TestKillEtcd(t *testing.T) {
	t.Parallel()
	if *cycles == 0 {
		t.Skip("only with -cycles: TestClusterEmbeddedEtcd is on etcd as well")
	}
	binary := carillonBinary(t)
	member := realserver.StartEtcd(t)
	o := chaos.Options{Binary: binary, Store: "etcd://" + member.Address(), Cycles: *cycles}
	if *outage {
		o.Restart = func() {
			member.Crash(t)
			member.Up(t)
		}
	}
	campaign(t, o)
}

// campaign does a campaign and has it judged.
func campaign(t *testing.T, o chaos.Options) {
	t.Helper()
	o.Seed, o.Log, o.Rate = *seed, t.Logf, *rate
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	t.Logf("seed %d; again: go test ./server/internal/testing/chaos -run '^%s$' -v -seed %d -cycles %d", o.Seed,
		t.Name(), o.Seed, o.Cycles)
	cycle := 20*time.Second + time.Duration(o.Ballast*(1+o.Kills))*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(o.Cycles)*cycle+2*time.Minute)
	defer cancel()
	h, err := chaos.Run(ctx, o)
	spec := checker.Spec{MinStarts: 20 * o.Cycles}
	if o.Cycles >= enoughCycles {
		spec.MinStaleRefused, spec.MinInfoApplied, spec.Faults = 1, 1, []string{"kill"}
	}
	judge(t, h, err, spec)
}

// judge says what was wrong with a campaign.
func judge(t *testing.T, r chaos.Report, err error, spec checker.Spec) {
	t.Helper()
	if err != nil {
		t.Errorf("the campaign: %v", err)
	}
	h := r.History
	v := checker.Check(h, spec)
	t.Logf("%d operations, %d results, %d finished runs; verdict: %.3000s", len(h.Ops), len(h.Results),
		len(h.Final.Runs), v)
	for _, kind := range slices.Sorted(maps.Keys(v.Coverage)) {
		t.Logf("%d times %s", v.Coverage[kind], kind)
	}
	t.Logf("%d kills of nodes", len(slices.DeleteFunc(slices.Clone(r.Account.Breaks), func(b deliveries.Break) bool {
		return b.Kind != deliveries.Kill
	})))
	if v.Result != checker.Passed {
		t.Errorf("the checker says %s", v.Result)
	}
	found := chaos.Suspicions(&h)
	for _, text := range found[:min(len(found), 30)] {
		t.Errorf("suspicion: %s", text)
	}
	match(t, r)
	if t.Failed() || *always {
		keep(t, r, v)
	}
}

// match holds what receivers saw against what the history says.
func match(t *testing.T, r chaos.Report) {
	t.Helper()
	t.Logf("%d deliveries were seen, %d records are in the history", len(r.Ledger.Seen), len(r.Account.Runs))
	causes := map[string]int{}
	for _, a := range deliveries.CameAgain(r.Ledger, r.Account) {
		causes[a.Cause()]++
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		t.Logf("%d attempts came again: %s", causes[cause], cause)
	}
	const shown = 8 // of each rule
	count := map[string]int{}
	for _, v := range deliveries.Audit(r.Ledger, r.Account) {
		if count[v.Rule]++; count[v.Rule] <= shown {
			t.Errorf("delivery: %s", v)
		}
	}
	for rule, n := range count {
		t.Errorf("deliveries break the rule %q %d times", rule, n)
	}
}

// keep writes down what was seen and what was said of it.
func keep(t *testing.T, r chaos.Report, v checker.Verdict) {
	t.Helper()
	folder := *out
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "carillon-chaos-"); err != nil { //nolint:usetesting // it outlives the test
			t.Fatal(err)
		}
	}
	for name, write := range map[string]func(io.Writer) error{
		"history.json":    r.Encode,
		"deliveries.json": r.WriteDeliveries,
		"verdict.json":    v.WriteJSON,
		"timeline.html":   func(w io.Writer) error { return checker.WriteTimeline(w, r.History, v) },
	} {
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("history.json, deliveries.json, verdict.json and timeline.html are in %s", folder)
}
