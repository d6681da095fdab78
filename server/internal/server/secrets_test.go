package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// secretHost is a target that keeps what it gets, and repeats it in its answers.
type secretHost struct {
	*httptest.Server

	mu  sync.Mutex
	got []string // values of Authorization
}

func newSecretHost(t *testing.T, status int) *secretHost {
	h := &secretHost{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got = append(h.got, r.Header.Get("Authorization"))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		fmt.Fprint(w, "you sent ", r.Header)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *secretHost) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.got...)
}

func (h *secretHost) at() string { return strings.TrimPrefix(h.URL, "http://") }

// secretsFile writes a file of secrets, and the value of one named token.
func secretsFile(t *testing.T, value string, hosts ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	writeSecret(t, path, value)
	text := "secrets:\n  token:\n    file: token\n    namespaces: [shop]\n    allow_http: true\n    hosts: ['" +
		strings.Join(hosts, "','") + "']\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeSecret replaces the value as a whole, as careful operators do.
func writeSecret(t *testing.T, file, value string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(file), "next")
	if err := os.WriteFile(next, []byte(value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(filepath.Dir(file), "token")); err != nil {
		t.Fatal(err)
	}
}

// loopbackTargets are those that a test may reach, with secrets.
func loopbackTargets(file string, reload <-chan os.Signal) server.Targets {
	return server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Secrets: server.Secrets{File: file, Reload: reload}}
}

// secretJob is a job of the namespace shop.
func secretJob(name, url, authorization string) carillon.Job {
	j := carillon.Job{Namespace: "shop", Name: name, Due: carillon.In(0), Target: carillon.HTTP(url),
		Data: carillon.JSON(1), FailurePolicy: carillon.Drop()}
	j.Target.HTTP.Headers = map[string]string{"Authorization": authorization}
	return j
}

// runOnce puts a job and returns its run when that has ended.
func runOnce(t *testing.T, sched carillon.Scheduler, j carillon.Job) (run carillon.Run) {
	t.Helper()
	if _, err := sched.PutJob(t.Context(), j); err != nil {
		t.Fatalf("put %s: %v", j.Name, err)
	}
	eventually(t, "the run of "+j.Name+" ends", func() bool {
		page, err := sched.ListRuns(t.Context(), carillon.RunQuery{Namespace: j.Namespace, Job: j.Name})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Runs) == 0 || !page.Runs[0].Status.Finished() {
			return false
		}
		run = page.Runs[0]
		return true
	})
	return run
}

// TestASecretReachesItsHostAlone looks for the value in everything that a node answers, logs and stores.
func TestASecretReachesItsHostAlone(t *testing.T) {
	const value = "s3cr3t-7f31c0ffee"
	echoes, moves := newSecretHost(t, http.StatusOK), newSecretHost(t, http.StatusTemporaryRedirect)
	log, folder := &lines{}, t.TempDir()
	s, stop := serveUntil(t, server.Config{Store: "pebble:" + folder, Partitions: 4,
		Log:     slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Targets: loopbackTargets(secretsFile(t, value, echoes.at(), moves.at()), nil)})
	c := dial(t, s)
	for name, h := range map[string]*secretHost{"echo": echoes, "moved": moves} {
		run := runOnce(t, c, secretJob(name, h.URL+"/x", "Bearer secret://token"))
		if got := h.all(); len(got) != 1 || got[0] != "Bearer "+value {
			t.Errorf("%s: the target got %q", name, got)
		}
		if name == "echo" && !strings.Contains(string(run.Response), "[secret]") {
			t.Errorf("the result is %s", run.Response)
		}
	}
	later := secretJob("later", echoes.URL, "Bearer secret://token")
	later.Due = carillon.In(time.Hour)
	if _, err := c.PutJob(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, path := range []string{"/v1/namespaces/shop/jobs", "/v1/namespaces/shop/jobs/later", "/v1/namespaces/shop/runs",
		"/v1/namespaces/shop/queues", "/metrics", "/v1/namespaces/shop"} {
		_, text := get(t, "http://"+s.HTTPAddr()+path)
		said.WriteString(text)
	}
	stop()
	if !strings.Contains(said.String(), "secret://token") {
		t.Error("no answer shows the reference")
	}
	if strings.Contains(said.String(), value) || log.containing(value) > 0 {
		t.Error("the value is in an answer or in the log")
	}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(value)) {
			t.Errorf("the value is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSecretsThatAreRefused are at a put, in a patch and in a webhook, by the field at fault.
func TestSecretsThatAreRefused(t *testing.T) {
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Targets: loopbackTargets(secretsFile(t, "s3cr3t", "api.example.com:8080"), nil)})
	c := dial(t, s)
	good := "http://api.example.com:8080/"
	for _, wrong := range []struct{ namespace, url, value, want string }{
		{"shop", good, "secret://other", "no secret other for namespace shop"},
		{"shops", good, "secret://token", "no secret token for namespace shops"},
		{"shop", "http://api.example.com/", "secret://token", "may not be sent to api.example.com:80"},
		{"shop", "http://api.example.com.evil.test:8080/", "secret://token", "may not be sent to"},
		{"shop", good, "Bearer x secret://token", "follows one word"},
		{"shop", good, "SECRET://token", "lower case"},
		{"shop", good, "secret://", "has no name"},
		{"shop", good, "secret://token/../x", "letters, digits"},
	} {
		j := secretJob("a", wrong.url, wrong.value)
		j.Namespace = wrong.namespace
		_, err := c.PutJob(t.Context(), j)
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.InvalidArgument || e.Field != "target.http.headers" ||
			!strings.Contains(e.Message, wrong.want) {
			t.Errorf("%s to %s: %v", wrong.value, wrong.url, err)
		}
	}
	j := secretJob("a", good, "secret://token")
	j.Due = carillon.In(time.Hour)
	if _, err := c.PutJob(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	j.Target.HTTP.URL = "http://evil.test:8080/"
	patch := carillon.Patch{Job: j, Fields: []string{"target"}}
	if _, err := c.PatchJob(t.Context(), carillon.Key{Namespace: "shop", Name: "a"}, patch); err == nil ||
		!strings.Contains(err.Error(), "may not be sent to evil.test:8080") {
		t.Errorf("a patch: %v", err)
	}
	_, err := c.PutNamespace(t.Context(), carillon.Namespace{Name: "shop", Webhooks: []carillon.Webhook{{Name: "w",
		URL: "http://evil.test:8080/", Headers: j.Target.HTTP.Headers, Types: []carillon.EventType{"run.dead"}}}})
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "webhooks[0].headers" {
		t.Errorf("a webhook: %v", err)
	}
}

// readAgain returns when a node has read its file again: it takes the second signal after that.
func readAgain(reload chan<- os.Signal) {
	reload <- syscall.SIGHUP
	reload <- syscall.SIGHUP
}

// TestSecretsAreReplacedUnderLoad has all requests carry the old value or the new one, and a broken file keep
// what is in force.
func TestSecretsAreReplacedUnderLoad(t *testing.T) {
	const old, next, jobs = "s3cr3t-of-yesterday", "s3cr3t-of-today", 200
	h := newSecretHost(t, http.StatusOK)
	file, reload, log := secretsFile(t, old, h.at()), make(chan os.Signal), &lines{}
	s := serve(t, server.Config{Store: "memory:", Partitions: 4, Log: slog.New(slog.NewTextHandler(log, nil)),
		Targets: loopbackTargets(file, reload)})
	c := dial(t, s)
	all := make([]carillon.Job, jobs)
	for i := range all {
		all[i] = secretJob(fmt.Sprint("load-", i), h.URL, "secret://token")
	}
	for part := range slices.Chunk(all, jobs/4) {
		if _, err := c.PutJobs(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		writeSecret(t, file, "broken\r\nX-Injected: 1")
		readAgain(reload)
		writeSecret(t, file, next)
		readAgain(reload)
	}
	eventually(t, "all have run", func() bool { return len(h.all()) == jobs })
	runOnce(t, c, secretJob("last", h.URL, "secret://token"))
	count := map[string]int{}
	for _, got := range h.all() {
		count[got]++
	}
	if count[old]+count[next] != jobs+1 || h.all()[jobs] != next {
		t.Errorf("the target got %v", count)
	}
	if log.containing("stay as they were") == 0 || log.containing("Injected") > 0 {
		t.Errorf("the log does not tell of the broken file, or shows it:\n%s", log.text.String())
	}
}

// TestASecretThatWasTakenBack puts off the run of a job that was put before, then fails it.
func TestASecretThatWasTakenBack(t *testing.T) {
	h := newSecretHost(t, http.StatusOK)
	file, reload := secretsFile(t, "s3cr3t", h.at()), make(chan os.Signal)
	s := serve(t, server.Config{Store: "memory:", Partitions: 4, Targets: loopbackTargets(file, reload)})
	c := dial(t, s)
	j := secretJob("later", h.URL, "secret://token")
	j.Due = carillon.In(time.Hour)
	if _, err := c.PutJob(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("secrets: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	readAgain(reload)
	run, err := c.TriggerJob(t.Context(), carillon.Key{Namespace: "shop", Name: "later"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run fails", func() bool {
		run, err = c.GetRun(t.Context(), "shop", run.ID)
		if err != nil {
			t.Fatal(err)
		}
		return run.Status.Finished()
	})
	if len(h.all()) != 0 || run.Attempt != 2 || len(run.Errors) != 1 ||
		!strings.Contains(fmt.Sprint(run.Errors), "no secret token for namespace shop") {
		t.Errorf("%d requests; the run says %q", len(h.all()), fmt.Sprint(run.Errors))
	}
}

// TestANodeWithoutSecretsSendsReferences as they are: they were texts like others before there were secrets.
func TestANodeWithoutSecretsSendsReferences(t *testing.T) {
	h := newSecretHost(t, http.StatusOK)
	s := serve(t, server.Config{Store: "memory:", Partitions: 4, Targets: loopbackTargets("", nil)})
	runOnce(t, dial(t, s), secretJob("text", h.URL, "Bearer secret://token"))
	if got := h.all(); len(got) != 1 || got[0] != "Bearer secret://token" {
		t.Errorf("the target got %q", got)
	}
}

// TestLiteralCredentialsAreInJobsAlone: they are shown with the job, and nowhere else.
func TestLiteralCredentialsAreInJobsAlone(t *testing.T) {
	const value = "l1teral-7f31c0ffee"
	h, log := newSecretHost(t, http.StatusBadRequest), &lines{}
	s := serve(t, server.Config{Store: "memory:", Partitions: 4, Targets: loopbackTargets("", nil),
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	c := dial(t, s)
	j := secretJob("literal", h.URL, value)
	j.FailurePolicy, j.History.NoResults = carillon.Constant(time.Hour).WithMaxRetries(0), true
	run := runOnce(t, c, j)
	if got := h.all(); len(got) != 1 || got[0] != value {
		t.Errorf("the target got %q", got)
	}
	_, listed := get(t, "http://"+s.HTTPAddr()+"/v1/namespaces/shop/runs")
	for what, text := range map[string]string{"run": fmt.Sprint(run), "list": listed, "metrics": metrics(t, s),
		"log": log.text.String()} {
		if strings.Contains(text, value) {
			t.Errorf("%s: the value is there", what)
		}
	}
}
