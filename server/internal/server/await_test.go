package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// awaitedBy is a job whose runs a consumer of a subject completes.
func awaitedBy(name string, timeout time.Duration) carillon.Job {
	j := toSubject(name, "runs.work")
	j.Target.NATS.AwaitCompletion, j.Timeout = true, timeout
	j.FailurePolicy = carillon.Constant(10 * time.Millisecond).WithMaxRetries(1)
	return j
}

// sent waits until there are n messages, and returns the last.
func (n *natsServer) sent(count int) *jetstream.RawStreamMsg {
	n.t.Helper()
	var all []*jetstream.RawStreamMsg
	eventually(n.t, fmt.Sprint(count, " messages are there"), func() bool {
		all = n.messages()
		return len(all) >= count
	})
	return all[len(all)-1]
}

// answer is what a consumer says of the run of a message.
func answer(m *jetstream.RawStreamMsg, o carillon.Outcome) carillon.Result {
	return carillon.Result{RunID: m.Header.Get("ce-id"), Token: m.Header.Get("carillon-token"), Outcome: o,
		Response: []byte("by its consumer")}
}

// statusOf is that of the one run of a job.
func statusOf(t *testing.T, c carillon.Runs, job string) carillon.Run {
	t.Helper()
	page, err := c.ListRuns(t.Context(), carillon.RunQuery{Job: job})
	if err != nil || len(page.Runs) == 0 {
		t.Fatalf("%d runs of %s, %v", len(page.Runs), job, err)
	}
	is := page.Runs[0]
	for _, r := range page.Runs[1:] { // one that ends while it is listed may be there as it was, too
		if r.ID != is.ID {
			t.Fatalf("%s has the runs %s and %s", job, is.ID, r.ID)
		}
		if r.Status.Finished() {
			is = r
		}
	}
	return is
}

// TestAConsumerCompletesARun: by its token, after the node that sent it was killed; progress before that is told,
// and another answer afterwards is stale.
func TestAConsumerCompletesARun(t *testing.T) {
	n := startNATS(t)
	file := brokersFile(t, "brokers:\n  events:\n    kind: nats\n    addresses: ["+n.address()+"]\n")
	fs := vfs.NewCrashableMem()
	config := server.Config{Store: "pebble:store", Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: natsClients}}}
	s, stop := serveUntil(t, config.OnDisk(fs))
	c := dial(t, s)
	if _, err := c.PutJob(t.Context(), awaitedBy("a", time.Hour)); err != nil {
		t.Fatal(err)
	}
	m := n.sent(1)
	killed := fs.CrashClone(vfs.CrashCloneCfg{}) // what is on the disk once the message has left, and no more
	if m.Header.Get("carillon-await-completion") != "true" {
		t.Errorf("headers %v", m.Header)
	}
	stop()

	s = serve(t, config.OnDisk(killed))
	c = dial(t, s)
	r := statusOf(t, c, "a")
	if r.Status != carillon.RunRunning || r.ID != m.Header.Get("ce-id") || r.Attempt != 1 {
		t.Fatalf("after the kill it is %v, attempt %d", r.Status, r.Attempt)
	}
	progress := answer(m, carillon.OutcomeProgress)
	progress.Progress = carillon.Progress{Percent: 40, Message: "rows"}
	if err := c.CompleteRun(t.Context(), "", progress); err != nil {
		t.Fatal(err)
	}
	r, err := c.GetRun(t.Context(), "", r.ID)
	if err != nil || r.Progress == nil || r.Progress.Percent != 40 || r.Status != carillon.RunRunning {
		t.Errorf("%v: %+v, %v", r.Status, r.Progress, err)
	}
	body := fmt.Sprintf(`{"token":%q,"outcome":"success","response":"done"}`, m.Header.Get("carillon-token"))
	complete(t, s, r.ID, body, http.StatusOK)
	complete(t, s, r.ID, body, http.StatusOK) // once more
	r, err = c.GetRun(t.Context(), "", r.ID)
	if err != nil || r.Status != carillon.RunSucceeded || string(r.Response) != "done" || r.Attempt != 1 {
		t.Errorf("%v after %d attempts: %q, %v", r.Status, r.Attempt, r.Response, r.Errors)
	}
	if err := c.CompleteRun(t.Context(), "", answer(m, carillon.OutcomeFailure)); !errors.Is(err, carillon.FailedPrecondition) {
		t.Errorf("a failure after the success: %v", err)
	}
	if all := n.messages(); len(all) != 1 {
		t.Errorf("%d messages", len(all))
	}
}

// complete calls :complete by REST, as a consumer in any language does.
func complete(t *testing.T, s *server.Server, run, body string, want int) {
	t.Helper()
	url := "http://" + s.HTTPAddr() + "/v1/namespaces/default/runs/" + run + ":complete"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		var problem map[string]any
		_ = json.NewDecoder(resp.Body).Decode(&problem) // it is only shown
		t.Errorf("%d, not %d: %v", resp.StatusCode, want, problem)
	}
}

// TestARunThatNobodyCompletes is tried again after its timeout: the token of the first attempt is stale then,
// and that of a run that was cancelled.
func TestARunThatNobodyCompletes(t *testing.T) {
	n := startNATS(t)
	file := brokersFile(t, "brokers:\n  events:\n    kind: nats\n    addresses: ["+n.address()+"]\n")
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: natsClients}}})
	c := dial(t, s)
	if _, err := c.PutJob(t.Context(), awaitedBy("slow", time.Second)); err != nil {
		t.Fatal(err)
	}
	first := n.sent(1)
	second := n.sent(2) // although JetStream keeps one message of each id
	if err := c.CompleteRun(t.Context(), "", answer(first, carillon.OutcomeSuccess)); !errors.Is(err, carillon.FailedPrecondition) {
		t.Errorf("a stale token: %v", err)
	}
	if first.Header.Get("ce-id") != second.Header.Get("ce-id") || second.Header.Get("carillon-attempt") != "2" {
		t.Errorf("the second attempt: %v", second.Header)
	}
	eventually(t, "the run is dead", func() bool { return statusOf(t, c, "slow").Status == carillon.RunDead })

	if _, err := c.PutJob(t.Context(), awaitedBy("cancelled", time.Hour)); err != nil {
		t.Fatal(err)
	}
	m := n.sent(3)
	if _, err := c.CancelRun(t.Context(), "", m.Header.Get("ce-id")); err != nil {
		t.Fatal(err)
	}
	if err := c.CompleteRun(t.Context(), "", answer(m, carillon.OutcomeSuccess)); !errors.Is(err, carillon.FailedPrecondition) {
		t.Errorf("a cancelled run: %v", err)
	}
	if r := statusOf(t, c, "cancelled"); r.Status != carillon.RunCancelled {
		t.Errorf("it is %v", r.Status)
	}
}
