package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// withPayloads is a node that keeps data above 100 bytes apart.
func withPayloads(t *testing.T) (*server.Server, *client.Client) {
	t.Helper()
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Payloads: &server.Payloads{Store: "file:" + t.TempDir(), Above: 100, Max: 8 << 20},
		Targets:  server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	return s, dial(t, s)
}

// got is a run as a consumer has it.
type got struct {
	job  string
	data string
}

// receiver is an HTTP target.
func receiver(t *testing.T, runs chan<- got) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(b)) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		runs <- got{r.Header.Get("Carillon-Job"), string(b)}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestPayloadsComeToConsumers, wherever they are kept: to HTTP targets and workers, of jobs that were put one by
// one, together or by reference, patched, triggered and redriven.
func TestPayloadsComeToConsumers(t *testing.T) {
	_, c := withPayloads(t)
	ctx := t.Context()
	runs := make(chan got, 100)
	url := receiver(t, runs)
	large, larger := strings.Repeat("x", 1000), strings.Repeat("y", 3<<20)
	want := func(name, data string) {
		t.Helper()
		if g := await(t, runs); g.job != "default/"+name || g.data != data {
			t.Fatalf("%s with %d bytes came, not %s with %d", g.job, len(g.data), name, len(data))
		}
	}
	job := func(name, data string) carillon.Job {
		return carillon.Job{Name: name, Target: carillon.HTTP(url), Data: carillon.Bytes([]byte(data), "text/plain")}
	}
	put, err := c.PutJob(ctx, job("one", large))
	if d := put.Job.Data; err != nil || d.Ref == nil || d.Bytes != nil || d.Ref.Size != 1000 {
		t.Fatalf("%+v, %v", d, err)
	}
	want("one", large)
	if _, err := c.PutJobs(ctx, []carillon.Job{job("small", "x")}); err != nil {
		t.Fatal(err)
	}
	want("small", "x")
	puts, err := c.PutJobs(ctx, []carillon.Job{job("many", large)})
	if err != nil || puts[0].Job.Data.Ref == nil {
		t.Fatalf("%+v, %v", puts, err)
	}
	want("many", large)
	ref, err := c.PutPayload(ctx, "", strings.NewReader(larger))
	if err != nil {
		t.Fatal(err)
	}
	daily := carillon.Job{Name: "daily", Schedule: "@every 24h", Target: carillon.HTTP(url), Data: carillon.Data{Ref: &ref}}
	if _, err := c.PutJob(ctx, daily); err != nil {
		t.Fatal(err)
	}
	key := carillon.Key{Namespace: "default", Name: "daily"}
	if _, err := c.PatchJob(ctx, key, carillon.Patch{Fields: []string{"note"}, Job: carillon.Job{Note: "x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TriggerJob(ctx, key); err != nil {
		t.Fatal(err)
	}
	want("daily", larger)
	own := carillon.Bytes([]byte(large), "text/plain")
	if _, err := c.TriggerJob(ctx, key, carillon.TriggerOptions{Data: &own}); err != nil {
		t.Fatal(err)
	}
	want("daily", large)
	patched := carillon.Patch{Fields: []string{"data"}, Job: carillon.Job{Data: own}}
	if p, err := c.PatchJob(ctx, key, patched); err != nil || p.Job.Data.Ref == nil || p.Job.Data.Ref.Size != 1000 {
		t.Fatalf("%+v, %v", p.Job.Data, err)
	}
	if j, err := c.GetJob(ctx, key); err != nil || j.Data.Ref == nil || j.Data.Bytes != nil {
		t.Fatalf("%+v, %v", j.Data, err)
	}
	if did, err := c.CollectPayloads(ctx); err != nil || did.Removed != 0 {
		t.Errorf("%+v, %v", did, err)
	}
}

// TestADeadRunKeepsItsPayload for its redrive, and a worker gets it as it gets any.
func TestADeadRunKeepsItsPayload(t *testing.T) {
	_, c := withPayloads(t)
	large := strings.Repeat("x", 2<<20)
	ref, err := c.PutPayload(t.Context(), "default", strings.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	runs := make(chan got, 10)
	work := worker.New(c, worker.Options{Grace: -1})
	fails := true
	worker.Handle(work, "q", func(_ context.Context, run carillon.Run, in []byte) error {
		runs <- got{run.ID, string(in)}
		if fails {
			return worker.Discard(errors.New("no"))
		}
		return nil
	}, worker.Limit(1))
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- work.Run(ctx) }()
	if _, err := c.PutJob(t.Context(), carillon.Job{Name: "x", Target: carillon.WorkerQueue("q"),
		Data: carillon.Data{Ref: &ref}}); err != nil {
		t.Fatal(err)
	}
	first := await(t, runs)
	for { // until the result is there
		if run, err := c.GetRun(t.Context(), "default", first.job); err == nil && run.Status == carillon.RunDead {
			break
		}
	}
	fails = false
	if _, err := c.RedriveRun(t.Context(), "default", first.job); err != nil {
		t.Fatal(err)
	}
	again := await(t, runs)
	if first.data != large || again != first {
		t.Errorf("%d bytes, and %d after a redrive", len(first.data), len(again.data))
	}
	leave()
	if err := await(t, left); err != nil {
		t.Error(err)
	}
}

// TestWorkersThatReadNoPayloadsAreRefused: their handlers would be called without.
func TestWorkersThatReadNoPayloadsAreRefused(t *testing.T) {
	_, c := withPayloads(t)
	_, err := c.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}})
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.FailedPrecondition || e.Field != "hello.payloads" {
		t.Errorf("%v", err)
	}
	session, err := c.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}, Payloads: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// TestPayloadsOverREST: a body is stored and read as it is.
func TestPayloadsOverREST(t *testing.T) {
	s, c := withPayloads(t)
	ask := func(method, path string, body io.Reader) (int, http.Header, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.HTTPAddr()+path, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Timeout: patience}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, b
	}
	const at = "/v1/namespaces/ns/payloads"
	data := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	status, _, b := ask("PUT", at, bytes.NewReader(data))
	var stored struct{ Payload, Size string }
	if err := json.Unmarshal(b, &stored); status != 200 || err != nil || stored.Size != fmt.Sprint(len(data)) {
		t.Fatalf("%d %s", status, b)
	}
	ref, err := carillon.ParsePayloadRef(stored.Payload)
	if err != nil {
		t.Fatal(err)
	}
	status, h, b := ask("GET", at+"/"+stored.Payload, nil)
	if status != 200 || !bytes.Equal(b, data) || h.Get("Content-Length") != stored.Size ||
		h.Get("Content-Type") != "application/octet-stream" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d, %d bytes, %v", status, len(b), h)
	}
	if status, h, b := ask("HEAD", at+"/"+stored.Payload, nil); status != 200 || len(b) != 0 || h.Get("Content-Length") != stored.Size {
		t.Errorf("HEAD: %d, %d bytes, %v", status, len(b), h)
	}
	r, err := c.GetPayload(t.Context(), "ns", ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("over gRPC: %d bytes, %v", len(got), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.GetPayload(t.Context(), "other", ref); !errors.Is(err, carillon.NotFound) {
		t.Errorf("another namespace, over gRPC: %v", err)
	}
	for _, x := range []struct {
		method, path string
		body         []byte
		status       int
		says         string
	}{
		{"GET", "/v1/namespaces/other/payloads/" + stored.Payload, nil, 404, "put it again"},
		{"GET", at + "/x", nil, 400, "DAY/SHA256/SIZE"},
		{"PUT", at, nil, 400, "empty"},
		{"PUT", at + "?x=y", data, 400, "no query"},
		{"PUT", "/v1/namespaces/.../payloads", data, 400, "namespace"},
		{"PUT", at, make([]byte, 8<<20+1), 413, "more than 8388608 bytes"},
		{"POST", at, data, 405, "PUT is"},
		{"DELETE", at + "/" + stored.Payload, nil, 405, "GET"},
	} {
		if status, _, b := ask(x.method, x.path, bytes.NewReader(x.body)); status != x.status || !strings.Contains(string(b), x.says) {
			t.Errorf("%s %s: %d %s", x.method, x.path, status, b)
		}
	}
	if status, _, b := ask("POST", "/v1/payloads:collect", nil); status != 200 || !strings.Contains(string(b), `"removed":"0"`) {
		t.Errorf("collect: %d %s", status, b)
	}
}

// TestAPayloadThatBreaksOffIsNotStored, whichever way it comes: what its source says then is no end.
func TestAPayloadThatBreaksOffIsNotStored(t *testing.T) {
	s, c := withPayloads(t)
	begun := bytes.Repeat([]byte("0123456789"), 10_000)
	ref := carillon.PayloadRef{SHA256: sha256.Sum256(begun), Size: int64(len(begun))}.On(time.Now())
	for name, to := range map[string]carillon.Payloads{"gRPC": c, "embedded": s.Scheduler()} {
		for _, broken := range []error{io.ErrUnexpectedEOF, fmt.Errorf("read: %w", io.EOF)} {
			from := io.MultiReader(bytes.NewReader(begun), iotest.ErrReader(broken))
			if _, err := to.PutPayload(t.Context(), "ns", from); !errors.Is(err, broken) {
				t.Errorf("%s: %v, want %v", name, err, broken)
			}
		}
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT /v1/namespaces/ns/payloads HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
		len(begun)+1, begun)
	if err := errors.Join(err, conn.(*net.TCPConn).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode < 400 {
		t.Errorf("REST: %s, %v", resp.Status, err)
	}
	if _, err := c.GetPayload(t.Context(), "ns", ref); !errors.Is(err, carillon.NotFound) {
		t.Errorf("what had come is stored: %v", err)
	}
}

// TestANodeWithoutAPayloadStoreSaysSo, and takes jobs as ever.
func TestANodeWithoutAPayloadStoreSaysSo(t *testing.T) {
	c := dial(t, serve(t, server.Config{Store: "memory:", Partitions: 1}))
	_, err := c.PutPayload(t.Context(), "", strings.NewReader("x"))
	_, put := c.PutJob(t.Context(), carillon.Job{Name: "x", Target: carillon.WorkerQueue("q"),
		Data: carillon.Data{Ref: &carillon.PayloadRef{Day: 1, Size: 1}}})
	_, collected := c.CollectPayloads(t.Context())
	for _, err := range []error{err, put, collected} {
		if !errors.Is(err, carillon.FailedPrecondition) || !strings.Contains(err.Error(), "--payload-store") {
			t.Errorf("%v", err)
		}
	}
	large := carillon.Bytes(make([]byte, 200<<10), "")
	if p, err := c.PutJob(t.Context(), carillon.Job{Name: "x", Target: carillon.WorkerQueue("q"), Data: large}); err != nil ||
		len(p.Job.Data.Bytes) != 200<<10 {
		t.Errorf("%v", err)
	}
}

func TestWrongPayloadStores(t *testing.T) {
	for _, p := range []server.Payloads{{}, {Store: "x"}, {Store: "file:x", Max: -1}} {
		err := server.Config{Store: "memory:", Payloads: &p}.Validate()
		if err == nil || !strings.Contains(err.Error(), "payload") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
