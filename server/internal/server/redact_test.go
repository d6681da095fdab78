package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestWhoReadsSeesNoCredentials: in answers of gRPC and of REST, of jobs and of webhooks, to who may not
// write them. Who may gets what he has put, and can put it back.
func TestWhoReadsSeesNoCredentials(t *testing.T) {
	d := openDoors(t)
	ctx := t.Context()
	owner := d.client("a")
	headers := map[string]string{"Authorization": "Bearer hunter2", "X-Team": "billing"}
	job := carillon.Job{Namespace: "a", Name: "call", Due: carillon.At(time.Now().AddDate(1, 0, 0)),
		Target: carillon.Target{HTTP: &carillon.HTTPTarget{URL: "https://example.com/", Headers: headers}}}
	if _, err := owner.PutJob(ctx, job); err != nil {
		t.Fatal(err)
	}
	hook := carillon.Webhook{Name: "hook", URL: "https://example.com/hook", Headers: headers, Types: []carillon.EventType{carillon.EventRunDead}}
	if _, err := owner.PutNamespace(ctx, carillon.Namespace{Name: "a", Webhooks: []carillon.Webhook{hook}}); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]string{"a": "Bearer hunter2", "viewer": carillon.Redacted} {
		c := d.client(who)
		j, err := c.GetJob(ctx, job.Key())
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.GetNamespace(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []map[string]string{j.Target.HTTP.Headers, n.Webhooks[0].Headers} {
			if got["Authorization"] != want || got["X-Team"] != "billing" {
				t.Errorf("%s: %v", who, got)
			}
		}
		for _, path := range []string{"/v1/namespaces/a/jobs/call", "/v1/namespaces/a/jobs", "/v1/namespaces/a"} {
			if text := d.rest(who, path); !strings.Contains(text, want) || who == "viewer" && strings.Contains(text, "hunter2") {
				t.Errorf("%s: %s: %s", who, path, text)
			}
		}
	}
	seen, err := d.client("viewer").GetJob(ctx, job.Key())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = owner.PutJob(ctx, seen); err == nil || !strings.Contains(err.Error(), "target.http.headers") {
		t.Errorf("what a viewer saw was put: %v", err)
	}
}

// rest is what REST answers to a key.
func (d *doors) rest(key, path string) string {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://"+d.node.HTTPAddr()+path, http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.keys[key])
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		d.t.Fatal(res.Status, string(text), err)
	}
	return string(text)
}
