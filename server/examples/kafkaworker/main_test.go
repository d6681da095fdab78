package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// output tells when a line came that has some text.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines <- string(p)
	return o.text.Write(p)
}

// next returns the next line. The worker writes one within a minute.
func (o *output) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-o.lines:
		return line
	case <-time.After(time.Minute):
		t.Fatal("the worker says nothing")
		return ""
	}
}

// node is a node that sends runs to a Kafka.
func node(t *testing.T, address string) *server.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "brokers.yaml")
	if err := os.WriteFile(file, []byte("brokers:\n  events: {kind: kafka, addresses: ['"+address+"']}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clients := map[string]broker.New{"kafka": func(s broker.Settings) (broker.Client, error) {
		return kafka.New(kafka.Options{Addresses: s.Addresses})
	}}
	n, err := server.New(server.Config{Store: "memory:", GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: clients}}})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(life) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n
}

// TestRun: a run is done once, also if it comes twice; one that fails is tried again.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("Kafka takes long to start")
	}
	certificate, key, _ := realserver.Authority(t)
	k := realserver.NewKafka(t, certificate, key)
	k.Up(t)
	k.Topic(t, "work", 1)
	n := node(t, k.Address())
	c, err := client.Dial(n.GRPCAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"good", "flaky"} {
		_, err := c.PutJob(t.Context(), carillon.Job{Name: name, Data: carillon.JSON(map[string]string{"name": name}),
			Target:        carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: "events", Topic: "work", AwaitCompletion: true}},
			FailurePolicy: carillon.Constant(10 * time.Millisecond).WithMaxRetries(3)})
		if err != nil {
			t.Fatal(err)
		}
	}
	did := map[string]int{}
	out := &output{lines: make(chan string, 100)}
	w := &worker{node: "http://" + n.HTTPAddr(), out: out, done: map[string]string{},
		do: func(ctx context.Context, payload []byte) (string, error) {
			if did[string(payload)]++; strings.Contains(string(payload), "flaky") && did[string(payload)] == 1 {
				return "", errors.New("not today")
			}
			return greet(ctx, payload)
		}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, k.Address(), "work", w) }()
	for seen := 0; seen < 3; {
		if line := out.next(t); strings.Contains(line, "the node knows") {
			seen++
		} else {
			t.Log(line)
		}
	}
	for name, attempts := range map[string]int{"good": 1, "flaky": 2} {
		page, err := c.ListRuns(t.Context(), carillon.RunQuery{Job: name})
		if err != nil || len(page.Runs) != 1 {
			t.Fatalf("%d runs, %v", len(page.Runs), err)
		}
		r, err := c.GetRun(t.Context(), "", page.Runs[0].ID)
		if err != nil || r.Status != carillon.RunSucceeded || r.Attempt != attempts || string(r.Response) != "hello "+name {
			t.Errorf("%s: %v after %d attempts: %q, %v, %v", name, r.Status, r.Attempt, r.Response, r.Errors, err)
		}
	}
	repeat(t, k.Address())
	for range 3 { // the failure is stale by now; what has succeeded says so once more
		t.Log(out.next(t))
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if did[`{"name":"good"}`] != 1 || did[`{"name":"flaky"}`] != 2 {
		t.Errorf("done: %v", did)
	}
}

// repeat produces what is in the topic once more.
func repeat(t *testing.T, address string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("work"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all []*kgo.Record
	for len(all) < 3 {
		fetches := c.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		all = append(all, fetches.Records()...)
	}
	for _, r := range all[:3] {
		again := &kgo.Record{Topic: "work", Key: r.Key, Value: r.Value, Headers: r.Headers}
		if err := c.ProduceSync(t.Context(), again).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatANodeAnswers: a result that it does not take is a failure, and all but 409 and 404 is tried again.
func TestWhatANodeAnswers(t *testing.T) {
	for end, want := range map[int]string{http.StatusOK: "knows", http.StatusConflict: "409", http.StatusNotFound: "404"} {
		answers, outcomes := []int{http.StatusForbidden, http.StatusRequestEntityTooLarge, end}, ""
		node := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			var in struct{ Outcome string }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			outcomes += "," + in.Outcome
			rw.WriteHeader(answers[0])
			answers = answers[1:]
		}))
		w := &worker{node: node.URL}
		said, err := w.complete(t.Context(), "default", "r",
			map[string]any{"token": "x", "outcome": "success", "response": "large"})
		node.Close()
		if err != nil || !strings.Contains(said, want) || outcomes != ",success,success,failure" {
			t.Errorf("%q, %v after %s", said, err, outcomes)
		}
	}
}
