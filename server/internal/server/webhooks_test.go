package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// hook is a receiver of webhooks.
type hook struct {
	url string

	mu     sync.Mutex
	answer int // status; 0: 200
	got    []received
}

// received is a request to it.
type received struct {
	header http.Header
	ce     map[string]any // the CloudEvent
	event  map[string]any // its data
}

func receive(t *testing.T) *hook {
	h := &hook{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var one received
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &one.ce)
		}
		if err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		one.header, one.event = r.Header.Clone(), one.ce["data"].(map[string]any)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.got = append(h.got, one); h.answer != 0 {
			w.WriteHeader(h.answer)
		}
	}))
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

func (h *hook) answers(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = status
}

// of returns the requests about events of a type, once there are n.
func (h *hook) of(t *testing.T, n int, of carillon.EventType) (all []received) {
	t.Helper()
	eventually(t, "the webhook is told of "+string(of), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		all = nil
		for _, r := range h.got {
			if r.ce["type"] == "com.carillonhq."+string(of) {
				all = append(all, r)
			}
		}
		return len(all) >= n
	})
	return all
}

// local allows HTTP targets on this machine.
func local() server.Targets {
	return server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func setHooks(t *testing.T, ns carillon.Namespaces, hooks ...carillon.Webhook) {
	t.Helper()
	n, err := ns.GetNamespace(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	n.Webhooks, n.UnservedAfter = hooks, time.Minute
	if _, err := ns.PutNamespace(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// told waits until the webhooks of a node that has some are told: it notes a position at once.
func told(t *testing.T, s *server.Server) {
	t.Helper()
	eventually(t, "webhooks are told", func() bool {
		p, err := s.WebhooksPosition(t.Context())
		return err == nil && p != ""
	})
}

// TestAWebhookIsSentWhatItAsksFor as a CloudEvent, signed, until its receiver has taken it, over a restart, and
// nothing else.
func TestAWebhookIsSentWhatItAsksFor(t *testing.T) {
	h := receive(t)
	c := server.Config{Store: "pebble:" + filepath.Join(t.TempDir(), "store"), Partitions: 4, Targets: local()}
	c.Targets.SigningSecrets = map[string][]string{"default": {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqrTwjU"}}
	s, stop := serveUntil(t, c)
	w := &rig{t: t, sched: dial(t, s)}
	setHooks(t, w.sched, carillon.Webhook{Name: "ops", URL: h.url + "/x", Prefix: "watched/",
		Headers: map[string]string{"Authorization": "Bearer x"},
		Types:   []carillon.EventType{carillon.EventRunDead, carillon.EventJobDeleted}})
	told(t, s)
	h.answers(http.StatusServiceUnavailable)
	end := w.work(w.sched, worker.Options{}, func(context.Context, carillon.Run, []byte) error {
		return errors.New("not today")
	})
	once := carillon.Exponential(time.Second).WithMaxRetries(0)
	w.put(carillon.Job{Name: "other", FailurePolicy: once})
	w.put(carillon.Job{Name: "watched/a", FailurePolicy: once})
	h.of(t, 1, carillon.EventRunDead)
	end()
	stop()

	h.answers(0)
	s = serve(t, c)
	w.sched = dial(t, s)
	got := h.of(t, 2, carillon.EventRunDead)
	first, last := got[0], got[len(got)-1]
	if first.ce["id"] != last.ce["id"] || last.ce["source"] != "/v1/namespaces/default/jobs/watched/a" ||
		last.ce["subject"] != last.event["run"] || last.ce["specversion"] != "1.0" ||
		last.event["job"] != "watched/a" || last.event["error"] != "not today" {
		t.Errorf("told %v, then %v", first.ce, last.ce)
	}
	head := last.header
	if head.Get("Content-Type") != "application/cloudevents+json" || head.Get("Ce-Id") != "" ||
		head.Get("Authorization") != "Bearer x" || !strings.HasPrefix(head.Get("Webhook-Signature"), "v1,") {
		t.Errorf("headers %v", head)
	}
	name := carillon.EventJobs + "ops/" + last.ce["id"].(string)
	eventually(t, "the run that has sent it is in the history", func() bool {
		page, err := w.sched.ListRuns(t.Context(), carillon.RunQuery{Job: name})
		return err == nil && len(page.Runs) == 1 && page.Runs[0].Status == carillon.RunSucceeded
	})
	if _, err := w.sched.DeleteJob(t.Context(), key("watched/a")); err != nil && !errors.Is(err, carillon.NotFound) {
		t.Fatal(err)
	}
	w.put(carillon.Job{Name: "watched/b", Schedule: "@every 1000h"})
	if _, err := w.sched.DeleteJob(t.Context(), key("watched/b")); err != nil {
		t.Fatal(err)
	}
	h.of(t, 1, carillon.EventJobDeleted)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.got {
		if job := r.event["job"].(string); !strings.HasPrefix(job, "watched/") {
			t.Errorf("told of %s", job)
		}
	}
}

// TestAWebhookIsSentToABroker as a CloudEvent, also one that happens while the broker is away.
func TestAWebhookIsSentToABroker(t *testing.T) {
	n := startNATS(t)
	file := brokersFile(t, "brokers:\n  events:\n    kind: nats\n    addresses: ["+n.address()+"]\n")
	c := server.Config{Store: "pebble:" + filepath.Join(t.TempDir(), "store"), Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: natsClients}}}
	s, stop := serveUntil(t, c)
	w := &rig{t: t, sched: dial(t, s)}
	hook := carillon.Webhook{Name: "stream", NATS: &carillon.NATSTarget{Server: "events", Subject: "runs.told"},
		Types: []carillon.EventType{carillon.EventJobDeleted}}
	setHooks(t, w.sched, hook)
	told(t, s)
	remove := func(name string) {
		t.Helper()
		w.put(carillon.Job{Name: name, Schedule: "@every 1000h"})
		if _, err := w.sched.DeleteJob(t.Context(), key(name)); err != nil {
			t.Fatal(err)
		}
	}
	sent := func(runs int) (all []carillon.Run) {
		t.Helper()
		eventually(t, "the runs that have sent events are in the history", func() bool {
			page, err := w.sched.ListRuns(t.Context(), carillon.RunQuery{Prefix: carillon.EventJobs + "stream/",
				Statuses: []carillon.RunStatus{carillon.RunSucceeded}})
			all = page.Runs
			return err == nil && len(all) >= runs
		})
		return all
	}
	remove("a/ü")
	sent(1)
	n.down()
	remove("b")
	eventually(t, "the event waits for the broker", func() bool {
		page, err := w.sched.ListJobs(t.Context(), carillon.JobQuery{Prefix: carillon.EventJobs + "stream/"})
		if err != nil || len(page.Jobs) != 1 {
			return false
		}
		j, err := w.sched.GetJob(t.Context(), key(page.Jobs[0].Name))
		return err == nil && j.Status.Hold != nil && j.Status.Hold.Code == carillon.HoldBackoff
	})
	stop() // the settings and the event are durable
	n.up()
	s = serve(t, c)
	w.sched = dial(t, s)
	for _, r := range sent(2) {
		if r.Attempt > 2 { // one may have gone to the connection that broke
			t.Errorf("%s used %d attempts: %v", r.Job, r.Attempt, r.Errors)
		}
	}
	all := n.messages()
	if len(all) != 2 {
		t.Fatalf("%d messages", len(all))
	}
	for i, job := range []string{"a/%C3%BC", "b"} {
		m, ce := all[i], map[string]any{}
		if err := json.Unmarshal(m.Data, &ce); err != nil {
			t.Fatal(err)
		}
		if ce["type"] != "com.carillonhq.job.deleted" || ce["source"] != "/v1/namespaces/default/jobs/"+job ||
			m.Subject != "runs.told" || m.Header.Get("content-type") != "application/cloudevents+json" ||
			m.Header["ce-id"] != nil {
			t.Errorf("%s: %v: %s", m.Subject, m.Header, m.Data)
		}
	}
	ns, err := w.sched.GetNamespace(t.Context(), "")
	if err != nil || len(ns.Webhooks) != 1 || *ns.Webhooks[0].NATS != *hook.NATS || ns.Webhooks[0].URL != "" {
		t.Errorf("%+v, %v", ns.Webhooks, err)
	}
	ns.Webhooks[0].NATS, ns.Webhooks[0].Kafka = nil, &carillon.KafkaTarget{Cluster: "c", Topic: "t"}
	_, err = w.sched.PutNamespace(t.Context(), ns)
	if wrong, ok := errors.AsType[*carillon.Error](err); !ok || wrong.Field != "webhooks[0].kafka" {
		t.Errorf("a kind that the node has no client of: %v", err)
	}
}
