package server_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/natsbroker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/redisbroker"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// natsServer is a NATS server with JetStream, in this process, that can be ended and started again.
type natsServer struct {
	t       *testing.T
	options natsserver.Options
	running *natsserver.Server
}

// startNATS starts one that has a stream of all subjects that begin with "runs.".
func startNATS(t *testing.T) *natsServer {
	t.Helper()
	n := &natsServer{t: t, options: natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}}
	n.up()
	n.options.Port = n.running.Addr().(*net.TCPAddr).Port
	t.Cleanup(n.down)
	config := jetstream.StreamConfig{Name: "RUNS", Subjects: []string{"runs.>"}}
	if _, err := n.stream().CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *natsServer) up() {
	n.t.Helper()
	s, err := natsserver.NewServer(&n.options)
	if err != nil {
		n.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		n.t.Fatal("nats-server does not start")
	}
	n.running = s
}

func (n *natsServer) down() {
	n.running.Shutdown()
	n.running.WaitForShutdown()
}

func (n *natsServer) address() string { return fmt.Sprint("127.0.0.1:", n.options.Port) }

// stream is JetStream as another program sees it.
func (n *natsServer) stream() jetstream.JetStream {
	n.t.Helper()
	nc, err := nats.Connect(n.address())
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		n.t.Fatal(err)
	}
	return js
}

// messages are those of the stream, in order.
func (n *natsServer) messages() []*jetstream.RawStreamMsg {
	n.t.Helper()
	s, err := n.stream().Stream(n.t.Context(), "RUNS")
	if err != nil {
		n.t.Fatal(err)
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	var all []*jetstream.RawStreamMsg
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := s.GetMsg(n.t.Context(), seq)
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// brokersFile writes a file of brokers.
func brokersFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "brokers.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// redisClients are the clients of a node that knows Redis alone.
var redisClients = map[string]broker.New{"redis": func(s broker.Settings) (broker.Client, error) {
	return redisbroker.New(redisbroker.Options{Addresses: s.Addresses, Password: s.Password, MaxLength: s.MaxLength})
}}

// natsClients are the clients of a node that knows NATS alone.
var natsClients = map[string]broker.New{"nats": func(s broker.Settings) (broker.Client, error) {
	return natsbroker.New(natsbroker.Options{Addresses: s.Addresses, Core: s.Core})
}}

// toSubject is a job that is published at once.
func toSubject(name, subject string) carillon.Job {
	return carillon.Job{Name: name, Data: carillon.JSON(name),
		Target: carillon.Target{NATS: &carillon.NATSTarget{Server: "events", Subject: subject}}}
}

// finished waits until all of the jobs' runs have ended and returns them by job.
func finished(t *testing.T, c carillon.Runs, n int) map[string]carillon.Run {
	t.Helper()
	all := map[string]carillon.Run{}
	eventually(t, fmt.Sprintf("%d runs end", n), func() bool {
		q := carillon.RunQuery{PageSize: 1000, Statuses: []carillon.RunStatus{carillon.RunSucceeded, carillon.RunFailed,
			carillon.RunDead}}
		for {
			page, err := c.ListRuns(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Runs {
				all[r.Job] = r
			}
			if q.PageToken = page.NextPageToken; q.PageToken == "" {
				return len(all) >= n
			}
		}
	})
	return all
}

// TestRunsGoToNATS with what CloudEvents' binding asks for, and only once each.
func TestRunsGoToNATS(t *testing.T) {
	n := startNATS(t)
	file := brokersFile(t, "brokers:\n  events:\n    kind: nats\n    addresses: ["+n.address()+"]\n")
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: natsClients}}})
	c := dial(t, s)
	if _, err := c.PutJob(t.Context(), toSubject("a/ü", "runs.a")); err != nil {
		t.Fatal(err)
	}
	r := finished(t, c, 1)["a/ü"]
	if r.Status != carillon.RunSucceeded || r.Attempt != 1 {
		t.Fatalf("%v after %d attempts: %v", r.Status, r.Attempt, r.Errors)
	}
	all := n.messages()
	if len(all) != 1 {
		t.Fatalf("%d messages", len(all))
	}
	m := all[0]
	for name, want := range map[string]string{"Nats-Msg-Id": r.ID, "ce-id": r.ID, "ce-specversion": "1.0",
		"ce-type": "com.carillonhq.run", "ce-source": "/v1/namespaces/default/jobs/a/%25C3%25BC",
		"ce-subject": "a/%C3%BC", "content-type": "application/json", "carillon-job": "default/a/%C3%BC",
		"carillon-attempt": "1", "idempotency-key": r.ID} {
		if got := m.Header[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	if string(m.Data) != `"a/ü"` || m.Subject != "runs.a" {
		t.Errorf("%s: %s", m.Subject, m.Data)
	}
}

// TestRunsGoToRedis in the order in which their job fires, and wait while Redis is away.
func TestRunsGoToRedis(t *testing.T) {
	r := realserver.StartRedis(t)
	file := brokersFile(t, "brokers:\n  cache: {kind: redis, addresses: ['"+r.Address()+"']}\n")
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: redisClients}}})
	c := dial(t, s)
	put := func(name string) {
		t.Helper()
		job := carillon.Job{Name: name, Data: carillon.JSON(name),
			Target: carillon.Target{Redis: &carillon.RedisTarget{Server: "cache", Stream: "runs"}}}
		if _, err := c.PutJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	finished(t, c, 1)
	r.Crash(t)
	put("meanwhile")
	eventually(t, "the run is held", func() bool {
		j, err := c.GetJob(t.Context(), key("meanwhile"))
		if err != nil {
			t.Fatal(err)
		}
		return j.Status.Hold != nil && j.Status.Hold.Code == carillon.HoldBackoff
	})
	r.Up(t)
	for name, run := range finished(t, c, 2) {
		if run.Status != carillon.RunSucceeded {
			t.Errorf("%s: %v: %v", name, run.Status, run.Errors)
		}
	}
	if entries := r.Do(t, "XLEN", "runs"); entries != "2" {
		t.Errorf("%s entries", entries)
	}
}

// TestNATSIsRestartedUnderLoad ends the server under a stream of runs and starts it again. All runs succeed,
// each has its message once, and no attempt is used while the server is away.
func TestNATSIsRestartedUnderLoad(t *testing.T) {
	n := startNATS(t)
	file := brokersFile(t, "brokers:\n  events:\n    kind: nats\n    addresses: ["+n.address()+"]\n")
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: natsClients}}})
	c := dial(t, s)
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := c.PutJob(t.Context(), toSubject(fmt.Sprint(i), "runs.x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := func(name string) {
		t.Helper()
		eventually(t, name+" is held", func() bool {
			j, err := c.GetJob(t.Context(), key(name))
			if err != nil {
				t.Fatal(err)
			}
			h := j.Status.Hold
			return h != nil && h.Code == carillon.HoldBackoff
		})
	}
	put(0, 200)
	n.down()
	put(200, 201)
	held("200") // so the node knows that the server is away
	put(201, 400)
	held("399")
	n.up()
	runs := finished(t, c, 400)
	for name, r := range runs {
		if r.Status != carillon.RunSucceeded {
			t.Errorf("%s: %v after %d attempts: %v", name, r.Status, r.Attempt, r.Errors)
		}
		var i int
		if _, err := fmt.Sscan(name, &i); err != nil || i > 200 && r.Attempt != 1 {
			t.Errorf("%s: it was put while the server was away, and used %d attempts", name, r.Attempt)
		}
	}
	seen := map[string]bool{}
	for _, m := range n.messages() {
		id := m.Header["Nats-Msg-Id"][0]
		if seen[id] {
			t.Errorf("message %s is there twice", id)
		}
		seen[id] = true
	}
	for name, r := range runs {
		if !seen[r.ID] {
			t.Errorf("%s: its message is not there", name)
		}
	}
}

// TestBrokersAreReadAgain without a restart: a run of a broker that nobody knows waits, the put says so, and it
// goes out once the file has the broker. A broken file changes nothing.
func TestBrokersAreReadAgain(t *testing.T) {
	n := startNATS(t)
	file := brokersFile(t, "brokers: {}")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	logged, reload := &lines{}, make(chan os.Signal)
	s := serve(t, server.Config{Store: "memory:", Partitions: 4, Log: slog.New(slog.NewTextHandler(logged, nil)),
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: natsClients, Reload: reload}}})
	c := dial(t, s)
	put, err := c.PutJob(t.Context(), toSubject("early", "runs.x"))
	if err != nil {
		t.Fatal(err)
	}
	const warning = `target.nats.server: this node has no broker "events", and none of kind nats`
	if w := strings.Join(put.Warnings, "\n"); !strings.HasPrefix(w, warning) {
		t.Errorf("warned of %q", w)
	}
	eventually(t, "the run is held", func() bool {
		j, err := c.GetJob(t.Context(), key("early"))
		if err != nil {
			t.Fatal(err)
		}
		h := j.Status.Hold
		return h != nil && h.Code == carillon.HoldBackoff && strings.Contains(h.Text, `no broker "events"`)
	})
	right := "brokers:\n  events: {kind: nats, addresses: ['" + n.address() + "']}\n"
	write(right)
	reload <- syscall.SIGHUP
	if r := finished(t, c, 1)["early"]; r.Status != carillon.RunSucceeded || r.Attempt != 1 {
		t.Errorf("%v after %d attempts: %v", r.Status, r.Attempt, r.Errors)
	}
	write("brokers:\n  events: {kind: nats}\n")
	reload <- syscall.SIGHUP
	eventually(t, "the log says what is wrong", func() bool {
		return logged.containing("brokers.events.addresses: there is none") == 1
	})
	put, err = c.PutJob(t.Context(), toSubject("late", "runs.x"))
	if err != nil || len(put.Warnings) > 0 {
		t.Fatal(put.Warnings, err)
	}
	if r := finished(t, c, 2)["late"]; r.Status != carillon.RunSucceeded {
		t.Errorf("%v: %v", r.Status, r.Errors)
	}
}

// TestKindsWithoutAClient are refused by name: in jobs, and in the file.
func TestKindsWithoutAClient(t *testing.T) {
	c := server.Config{Store: "memory:", Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{Clients: natsClients}}}
	s := serve(t, c)
	job := carillon.Job{Name: "a", Target: carillon.Target{Redis: &carillon.RedisTarget{Server: "s", Stream: "x"}}}
	_, err := dial(t, s).PutJob(t.Context(), job)
	if err == nil || !strings.Contains(err.Error(), "target.redis: not supported yet") {
		t.Error(err)
	}
	c.Targets.Brokers.File = brokersFile(t, "brokers:\n  s: {kind: redis, addresses: ['a:1']}\n")
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "brokers.s.kind: redis is not supported yet") {
		t.Error(err)
	}
}

// TestPayloadsKeptApartGoToBrokers whole.
func TestPayloadsKeptApartGoToBrokers(t *testing.T) {
	n := startNATS(t)
	file := brokersFile(t, "brokers:\n  events: {kind: nats, addresses: ['"+n.address()+"']}\n")
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Payloads: &server.Payloads{Store: "file:" + t.TempDir(), Above: 100},
		Targets:  server.Targets{Brokers: server.Brokers{File: file, Clients: natsClients}}})
	c := dial(t, s)
	large := strings.Repeat("x", 100_000)
	for i := range 20 {
		job := toSubject(fmt.Sprint(i), "runs.x")
		job.Data = carillon.Bytes([]byte(large), "text/plain")
		if _, err := c.PutJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range finished(t, c, 20) {
		if r.Status != carillon.RunSucceeded {
			t.Errorf("%s: %v: %v", name, r.Status, r.Errors)
		}
	}
	all := n.messages()
	if len(all) != 20 {
		t.Errorf("%d messages", len(all))
	}
	for _, m := range all {
		if string(m.Data) != large {
			t.Fatalf("%d bytes", len(m.Data))
		}
	}
}

// TestAwaitedRunsAreBounded: a consumer never has more runs of a queue than the file says. The others wait, and say
// why; one goes out for each that it completes.
func TestAwaitedRunsAreBounded(t *testing.T) {
	const most, runs = 3, 8
	n := startNATS(t)
	file := brokersFile(t, "brokers:\n  events: {kind: nats, addresses: ['"+n.address()+"'], awaiting: "+
		strconv.Itoa(most)+"}\n")
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: natsClients}}})
	c := dial(t, s)
	for i := range runs {
		job := toSubject(fmt.Sprint(i), "runs.awaited")
		job.Target.NATS.AwaitCompletion = true
		if _, err := c.PutJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	for done := range runs {
		var all []*jetstream.RawStreamMsg
		eventually(t, "the consumer has as many as it may", func() bool {
			all = n.messages()
			return len(all) >= min(done+most, runs)
		})
		if len(all) > done+most {
			t.Fatalf("the consumer has %d runs, not %d", len(all)-done, most)
		}
		if done == 0 {
			eventually(t, "a run says why it waits", func() bool { return awaitsOthers(t, c, runs) == runs-most })
		}
		h := all[done].Header
		err := c.CompleteRun(t.Context(), "", carillon.Result{RunID: h.Get("ce-id"), Token: h.Get("carillon-token"),
			Outcome: carillon.OutcomeSuccess})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range finished(t, c, runs) {
		if r.Status != carillon.RunSucceeded || r.Attempt != 1 {
			t.Errorf("%s: %v after %d attempts: %v", name, r.Status, r.Attempt, r.Errors)
		}
	}
}

// awaitsOthers is how many of the jobs wait for others to be completed.
func awaitsOthers(t *testing.T, c carillon.Jobs, jobs int) (n int) {
	t.Helper()
	for i := range jobs {
		j, err := c.GetJob(t.Context(), key(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		if h := j.Status.Hold; h != nil && h.Code == carillon.HoldNoCredit &&
			strings.Contains(h.Text, "3 runs") && strings.Contains(h.Text, "await their completion by a consumer") {
			n++
		}
	}
	return n
}
