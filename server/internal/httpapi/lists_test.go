package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestListsThatCannotBeAreRefused: over REST, gRPC and the SDK alike, a list that can find nothing names the
// field that is wrong.
func TestListsThatCannotBeAreRefused(t *testing.T) {
	n := startNode(t)
	remote := n.remote(t)
	phase := func(p carillon.Phase) *carillon.Phase { return &p }
	status := func(s ...carillon.RunStatus) []carillon.RunStatus { return s }

	for i, w := range []struct {
		field string
		q     carillon.JobQuery
	}{
		{"namespace", carillon.JobQuery{Namespace: "a.b"}},
		{"namespace", carillon.JobQuery{Namespace: long(64)}},
		{"prefix", carillon.JobQuery{Prefix: "a:b"}},
		{"prefix", carillon.JobQuery{Prefix: long(513)}},
		{"label", carillon.JobQuery{Label: "=x"}},
		{"label", carillon.JobQuery{Label: "a=" + long(300)}},
		{"phase", carillon.JobQuery{Phase: phase(99)}},
		{"page_size", carillon.JobQuery{PageSize: -1}},
		{"page_size", carillon.JobQuery{PageSize: 1001}},
		{"page_token", carillon.JobQuery{PageToken: "zzz"}},
		{"page_token", carillon.JobQuery{PageToken: "bmFtZQ"}},
	} {
		what := fmt.Sprintf("jobs/%d/%s", i, w.field)
		_, err := remote.ListJobs(t.Context(), w.q)
		n.wantError(t, what, err, w.field)
		path := "/v1/namespaces/" + orDefault(w.q.Namespace) +
			"/jobs?prefix=" + url.QueryEscape(w.q.Prefix) + "&label=" +
			url.QueryEscape(w.q.Label) + "&page_token=" + w.q.PageToken
		if w.q.PageSize != 0 {
			path += fmt.Sprint("&page_size=", w.q.PageSize)
		}
		if w.q.Phase != nil {
			path += fmt.Sprint("&phase=", *w.q.Phase)
		}
		n.wantProblem(t, what, n.rest(t, "GET", path, ""), w.field)
	}

	for i, w := range []struct {
		field string
		q     carillon.NamespaceQuery
	}{
		{"page_size", carillon.NamespaceQuery{PageSize: -1}},
		{"page_size", carillon.NamespaceQuery{PageSize: 1001}},
		{"page_token", carillon.NamespaceQuery{PageToken: "zzz"}},
	} {
		what := fmt.Sprintf("namespaces/%d/%s", i, w.field)
		_, err := remote.ListNamespaces(t.Context(), w.q)
		n.wantError(t, what, err, w.field)
		path := fmt.Sprintf("/v1/namespaces?page_size=%d&page_token=%s", w.q.PageSize, w.q.PageToken)
		n.wantProblem(t, what, n.rest(t, "GET", path, ""), w.field)
	}
	n.wantProblem(t, "namespaces/unknown", n.rest(t, "GET", "/v1/namespaces?prefix=a", ""), "prefix")

	for i, w := range []struct {
		field string
		q     carillon.RunQuery
	}{
		{"namespace", carillon.RunQuery{Namespace: "a.b", Job: "j"}},
		{"namespace", carillon.RunQuery{Namespace: "a.b", Statuses: status(carillon.RunDead)}},
		{"job", carillon.RunQuery{Job: "a//b"}},
		{"status", carillon.RunQuery{Job: "j", Statuses: status(99)}},
		{"status", carillon.RunQuery{Statuses: status(carillon.RunDead, 77)}},
		{"prefix", carillon.RunQuery{Prefix: "a:b"}},
		{"prefix", carillon.RunQuery{Job: "j", Prefix: "j"}},
		{"queue", carillon.RunQuery{Queue: "a\tb"}},
		{"queue", carillon.RunQuery{Queue: long(513)}},
		{"kind", carillon.RunQuery{Kind: "smoke"}},
		{"label", carillon.RunQuery{Label: "=x"}},
		{"error", carillon.RunQuery{Error: long(4097)}},
		{"from", carillon.RunQuery{From: time.Unix(-1, 0)}},
		{"until", carillon.RunQuery{Until: time.Unix(-1, 0)}},
		{"until", carillon.RunQuery{From: time.Unix(9, 0), Until: time.Unix(9, 0)}},
		{"page_size", carillon.RunQuery{Job: "j", PageSize: 1001}},
		{"page_token", carillon.RunQuery{Job: "j", PageToken: "zzz"}},
		{"page_token", carillon.RunQuery{Job: "j", PageToken: "eyIxIjoiQUE9PSJ9"}},
	} {
		what := fmt.Sprintf("runs/%d/%s", i, w.field)
		_, err := remote.ListRuns(t.Context(), w.q)
		n.wantError(t, what, err, w.field)
		path := "/v1/namespaces/" + orDefault(w.q.Namespace) + "/runs?"
		if w.q.Job != "" {
			path = "/v1/namespaces/" + orDefault(w.q.Namespace) + "/jobs/" + w.q.Job + ":runs?"
		}
		path += "page_token=" + w.q.PageToken + "&prefix=" + url.QueryEscape(w.q.Prefix) + "&kind=" + w.q.Kind +
			"&queue=" + url.QueryEscape(w.q.Queue) + "&label=" + url.QueryEscape(w.q.Label) + "&error=" + w.q.Error
		for bound, t := range map[string]time.Time{"&from=": w.q.From, "&until=": w.q.Until} {
			if !t.IsZero() {
				path += bound + t.UTC().Format(time.RFC3339)
			}
		}
		if w.q.PageSize != 0 {
			path += fmt.Sprint("&page_size=", w.q.PageSize)
		}
		for _, s := range w.q.Statuses {
			path += fmt.Sprint("&status=", s)
		}
		n.wantProblem(t, what, n.rest(t, "GET", path, ""), w.field)
	}
}

// TestPageTokensOfOtherLists: a token of one namespace shows nothing of it in another.
func TestPageTokensOfOtherLists(t *testing.T) {
	n := startNode(t)
	for _, ns := range []string{"aaa", "bbb"} {
		for i := range 3 {
			job := fmt.Sprintf(`{%s}`, rightTarget)
			if a := n.rest(t, "PUT", fmt.Sprintf("/v1/namespaces/%s/jobs/%d", ns, i),
				job); a.status != http.StatusCreated {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
	}
	first := n.rest(t, "GET", "/v1/namespaces/aaa/jobs?page_size=1", "")
	var page pb.ListJobsResponse
	if err := json.Unmarshal([]byte(first.body), &struct {
		NextPageToken *string `json:"next_page_token"`
	}{&page.NextPageToken}); err != nil || page.GetNextPageToken() == "" {
		t.Fatalf("%s: %v", first.body, err)
	}
	rest := n.rest(t, "GET", "/v1/namespaces/aaa/jobs?page_token="+page.GetNextPageToken(), "")
	if rest.status != http.StatusOK || strings.Count(rest.body, `"uid"`) != 2 {
		t.Errorf("the rest is %d %s", rest.status, rest.body)
	}
	for _, other := range []string{"bbb/jobs?", "aaa/jobs?prefix=1&", "aaa/runs?status=dead&",
		"aaa/jobs/1:runs?"} {
		a := n.rest(t, "GET", "/v1/namespaces/"+other+"page_token="+page.GetNextPageToken(), "")
		n.wantProblem(t, other, a, "page_token")
	}
}

func orDefault(namespace string) string {
	if namespace == "" {
		return carillon.DefaultNamespace
	}
	return namespace
}
