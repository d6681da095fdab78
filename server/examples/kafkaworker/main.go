// Command kafkaworker takes runs from a topic of Kafka, does each once, and tells the node what became of it.
// Any number of it share the topic. It needs Kafka, a node whose file of brokers has it, and jobs that await
// completion:
//
//	carillon serve --store pebble:./carillon-data --brokers brokers.yaml
//	carillon job put hello --kafka events/work --await-completion --data '{"name":"you"}'
//	go run ./server/examples/kafkaworker localhost:9092 work http://localhost:7080
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	args := append(os.Args[1:], "localhost:9092", "work", "http://localhost:7080")[:3]
	if n := len(os.Args) - 1; n > 0 && n < len(args) {
		fmt.Fprintln(os.Stderr, "usage: kafkaworker [BROKER TOPIC NODE]")
		os.Exit(2)
	}
	w := &worker{node: args[2], out: os.Stdout, do: greet, done: map[string]string{}}
	err := run(ctx, args[0], args[1], w)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// greet is the work of this example. Its result is kept with the run.
func greet(_ context.Context, payload []byte) (result string, err error) {
	var in struct{ Name string }
	if err := json.Unmarshal(payload, &in); err != nil || in.Name == "" {
		return "", errors.New(`the payload is not {"name": "…"}`)
	}
	return "hello " + in.Name, nil
}

// run works until ctx ends.
func run(ctx context.Context, broker, topic string, w *worker) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumerGroup("kafkaworker"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // what came before the group was there
		kgo.DisableAutoCommit())                           // a record is committed once its run is answered
	if err != nil {
		return err
	}
	defer c.Close()
	for ctx.Err() == nil {
		if err := w.poll(ctx, c); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// poll answers the runs of the records that come next.
func (w *worker) poll(ctx context.Context, c *kgo.Client) error {
	fetches := c.PollRecords(ctx, 100)
	for _, failed := range fetches.Errors() { // the client goes on by itself after those that pass
		if ctx.Err() == nil {
			fmt.Fprintf(w.out, "%s: %v\n", failed.Topic, failed.Err)
		}
	}
	for record := range fetches.RecordsAll() {
		if err := w.answer(ctx, record); err != nil {
			return err
		}
		if err := c.CommitRecords(ctx, record); err != nil {
			return err
		}
	}
	return nil
}

// worker does runs, and answers for them.
type worker struct {
	node string // the node's address, http://HOST:PORT
	out  io.Writer
	do   func(ctx context.Context, payload []byte) (result string, err error)

	mu   sync.Mutex
	done map[string]string // results by run id. A real one keeps them with its data, in one transaction
}

// answer does the run of a record, if it is not done yet, and tells the node. It returns an error only if ctx
// ends before the node has answered.
func (w *worker) answer(ctx context.Context, r *kgo.Record) error {
	of := map[string]string{}
	for _, h := range r.Headers {
		of[h.Key] = string(h.Value)
	}
	if of["carillon-await-completion"] != "true" {
		fmt.Fprintf(w.out, "offset %d is no run that awaits completion\n", r.Offset)
		return nil
	}
	deadline, wrong := time.Parse(time.RFC3339, of["carillon-deadline"])
	if wrong != nil { // so its time is over at once, and the node is not told
		fmt.Fprintf(w.out, "offset %d: carillon-deadline: %v\n", r.Offset, wrong)
	}
	body := map[string]any{"token": of["carillon-token"], "outcome": "success"}
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	result, err := w.once(limited, of["ce_id"], r.Value)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		body["outcome"], body["message"] = "failure", err.Error()
	default:
		body["response"] = result
	}
	namespace, job, _ := strings.Cut(of["carillon-job"], "/")
	said, err := w.complete(limited, namespace, of["ce_id"], body)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		said = "its time was over: " + err.Error()
	}
	fmt.Fprintf(w.out, "%s, attempt %s, %s: %s\n", job, of["carillon-attempt"], body["outcome"], said)
	return nil
}

// once does a run, unless it is done: a run may come more than once, with other tokens, and it may have been
// done by an attempt whose answer came too late.
func (w *worker) once(ctx context.Context, id string, payload []byte) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if result, done := w.done[id]; done {
		return result, nil
	}
	result, err := w.do(ctx, payload)
	if err == nil {
		w.done[id] = result
	}
	return result, err
}

// The pauses before a node is asked once more: the first, and the longest.
const again, againLast = 500 * time.Millisecond, 30 * time.Second

// complete tells the node what became of a run, until it answers or ctx ends. said is its answer.
func (w *worker) complete(ctx context.Context, namespace, id string,
	body map[string]any) (said string, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	to := w.node + "/v1/namespaces/" + url.PathEscape(namespace) + "/runs/" + url.PathEscape(id) + ":complete"
	for pause := again; ; pause = min(2*pause, againLast) {
		status, answer, err := post(ctx, to, text)
		switch {
		case err == nil && status == http.StatusOK:
			return "the node knows", nil
		case err == nil && (status == http.StatusConflict || status == http.StatusNotFound):
			// The attempt is over: by its timeout, a cancel, or an answer. Who has the run now has another token.
			return fmt.Sprintf("the node refused it, %d: %s", status, answer), nil
		case err == nil && body["response"] != nil &&
			(status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge):
			// The node does not take the result, so the attempt fails.
			refused := map[string]any{"token": body["token"], "outcome": "failure",
				"message": fmt.Sprintf("the node refused the result, %d: %s", status, answer)}
			return w.complete(ctx, namespace, id, refused)
		case err == nil:
			err = fmt.Errorf("the node answers %d: %s", status, answer)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", err
		}
	}
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 4 << 10

// api asks the node.
var api = &http.Client{Timeout: 10 * time.Second}

func post(ctx context.Context, to string, body []byte) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := api.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, strings.TrimSpace(string(text)), err
}
