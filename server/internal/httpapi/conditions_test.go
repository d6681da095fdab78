package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// remote is a client of the node.
func (n *node) remote(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(strings.TrimPrefix(n.conn.Target(), "dns:///"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestDeletesOfOneGeneration: over REST, gRPC and the SDK a delete of another generation is refused and does
// nothing.
func TestDeletesOfOneGeneration(t *testing.T) {
	n := startNode(t)
	c := n.remote(t)
	put := func() {
		t.Helper()
		for _, note := range []string{"a", "b"} {
			job := fmt.Sprintf(`{%s,"schedule":"@daily","note":%q}`, rightTarget, note)
			if a := n.rest(t, "PUT", "/v1/namespaces/default/jobs/j", job); a.status >= 300 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
	}
	there := func() bool { return n.rest(t, "GET", "/v1/namespaces/default/jobs/j", "").status == http.StatusOK }
	deletes := map[string]func(generation uint64) error{
		"REST": func(g uint64) error {
			a := n.rest(t, "DELETE", "/v1/namespaces/default/jobs/j", "", "If-Match", fmt.Sprintf("%q", fmt.Sprint(g)))
			if a.status == http.StatusPreconditionFailed {
				return carillon.FailedPrecondition
			}
			if a.status != http.StatusOK {
				t.Errorf("REST answers %d %s", a.status, a.body)
			}
			return nil
		},
		"gRPC": func(g uint64) error {
			_, err := n.grpc.DeleteJob(t.Context(), &pb.DeleteJobRequest{Name: "j", IfGeneration: g})
			return wire.ErrorFromStatus(err)
		},
		"SDK": func(g uint64) error {
			_, err := c.DeleteJob(t.Context(), carillon.Key{Name: "j"}, carillon.IfGeneration(g))
			return err
		},
	}
	for face, remove := range deletes {
		put()
		for _, other := range []uint64{1, 3} {
			if err := remove(other); !errors.Is(err, carillon.FailedPrecondition) || !there() {
				t.Errorf("%s: generation %d of 2: %v, and it is there: %v", face, other, err, there())
			}
		}
		if err := remove(2); err != nil || there() {
			t.Errorf("%s: the generation that it has: %v, and it is there: %v", face, err, there())
		}
	}
	put()
	a := n.rest(t, "DELETE", "/v1/namespaces/default/jobs/j", "", "If-None-Match", "*")
	n.wantProblem(t, "If-None-Match", a, "If-None-Match")
	a = n.rest(t, "DELETE", "/v1/namespaces/default/jobs/j?if_generation=2", "", "If-Match", `"1"`)
	n.wantProblem(t, "two generations", a, "If-Match")
	a = n.rest(t, "DELETE", "/v1/namespaces/default/jobs?prefix=j", "", "If-Match", `"1"`)
	n.wantProblem(t, "a prefix", a, "If-Match")
	if !there() {
		t.Error("what was refused was done")
	}
}

// TestSettingsOfTwoOperators: over REST, gRPC and the SDK, who puts settings over a generation that is no
// more is refused, as is who would remove all limits without saying so.
func TestSettingsOfTwoOperators(t *testing.T) {
	n := startNode(t)
	c := n.remote(t)
	const path = "/v1/namespaces/default"
	read := func() carillon.Namespace {
		t.Helper()
		ns, err := c.GetNamespace(t.Context(), "")
		if a := n.rest(t, "GET", path, ""); err != nil ||
			a.header.Get("ETag") != fmt.Sprintf(`"%d"`, ns.Generation) {
			t.Fatalf("%+v, %v; ETag %s", ns, err, a.header.Get("ETag"))
		}
		return ns
	}
	puts := map[string]func(limits map[string]int32, generation uint64) error{
		"REST": func(limits map[string]int32, g uint64) error {
			var header []string
			if g != 0 {
				header = []string{"If-Match", fmt.Sprintf(`"%d"`, g)}
			}
			body := "{}"
			if k, ok := limits["k"]; ok {
				body = fmt.Sprintf(`{"concurrency_limits":{"k":%d}}`, k)
			}
			switch a := n.rest(t, "PUT", path, body, header...); {
			case a.status == http.StatusConflict && g == 0, a.status == http.StatusPreconditionFailed && g != 0:
				return carillon.FailedPrecondition
			case a.status != http.StatusOK:
				return errors.New(a.body)
			}
			return nil
		},
		"gRPC": func(limits map[string]int32, g uint64) error {
			_, err := n.grpc.PutNamespace(t.Context(),
				&pb.PutNamespaceRequest{ConcurrencyLimits: limits, Generation: g})
			return wire.ErrorFromStatus(err)
		},
		"SDK": func(limits map[string]int32, g uint64) error {
			ns := carillon.Namespace{ConcurrencyLimits: map[string]int{}, Generation: g}
			for k, v := range limits {
				ns.ConcurrencyLimits[k] = int(v)
			}
			_, err := c.PutNamespace(t.Context(), ns)
			return err
		},
	}
	for face, put := range puts {
		before := read()
		if err := put(map[string]int32{"k": 1}, before.Generation); err != nil {
			t.Fatalf("%s: %v", face, err)
		}
		for what, refused := range map[string]error{
			"a limit over the generation before": put(map[string]int32{"k": 2}, before.Generation),
			"nothing over the generation before": put(nil, before.Generation),
			"nothing":                            put(nil, 0),
		} {
			if !errors.Is(refused, carillon.FailedPrecondition) || read().ConcurrencyLimits["k"] != 1 {
				t.Errorf("%s: %s: %v, and there is %+v", face, what, refused, read())
			}
		}
		if err := put(map[string]int32{"k": 3}, 0); err != nil || read().ConcurrencyLimits["k"] != 3 {
			t.Errorf("%s: a put that says no generation: %v, and there is %+v", face, err, read())
		}
		if err := put(nil, read().Generation); err != nil || len(read().ConcurrencyLimits) != 0 {
			t.Errorf("%s: nothing, over the generation that is: %v, and there is %+v", face, err, read())
		}
	}
	// What GET says can be put back, and is then meant for that generation.
	body := n.rest(t, "GET", path, "").body
	if a := n.rest(t, "PUT", path, body); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := n.rest(t, "PUT", path, `{"concurrency_limits":{"k":1}}`); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := n.rest(t, "PUT", path, body); a.status != http.StatusConflict {
		t.Errorf("%d %s", a.status, a.body)
	}
}
