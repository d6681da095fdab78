package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestOutsideOfKubernetes: the mode needs an API server, and says so before the node is up.
func TestOutsideOfKubernetes(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	of := certificate(t, time.Hour)
	for line, want := range map[string]string{
		"":                         "--mode kubernetes: not in a pod of Kubernetes",
		"--kubeconfig=/nowhere/at": "--mode kubernetes: --kubeconfig: stat /nowhere/at",
	} {
		f, flags := daprLine(t, append(strings.Fields(line), "--mode=kubernetes", "--store=memory:",
			"--listen-address=127.0.0.1", "--port=0", "--healthz-port=0", "--enable-metrics=false",
			"--tls-cert-file", of.Cert, "--tls-key-file", of.Key, "--tls-ca-file", of.CA)...)
		err := f.serve(t.Context(), f.config(flags, slog.New(slog.DiscardHandler)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// TestANodeFollowsNamespaces: the jobs of a namespace that Kubernetes had when the node ran before are gone.
func TestANodeFollowsNamespaces(t *testing.T) {
	kubernetes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status := func(code int, reason string) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, reason, code)
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/gone"):
			status(http.StatusNotFound, "NotFound")
		case r.URL.Query().Get("watch") != "":
			status(http.StatusUnprocessableEntity, "Invalid") // a list will do
		default:
			fmt.Fprint(w, `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"},
				"items": [{"metadata": {"name": "kube-system", "uid": "it"}}, {"metadata": {"name": "stays", "uid": "u"}}]}`)
		}
	}))
	defer kubernetes.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("carillon-namespaces.json", `{"cluster": "it", "namespaces": ["gone", "stays"]}`)
	f, _ := daprLine(t, "--etcd-data-dir", dir, "--kubeconfig", write("config", `{apiVersion: v1, kind: Config,
current-context: it, contexts: [{name: it, context: {cluster: it}}], clusters: [{name: it, cluster: {server: "`+kubernetes.URL+`"}}]}`))
	log := make(lines, 100)
	c := server.Config{Store: "pebble:" + filepath.Join(dir, "carillon"), Partitions: 2, GRPC: server.None, HTTP: server.None,
		DrainGrace: -1, Sidecars: &server.Sidecars{Address: "127.0.0.1:0", API: daprAPI(daprapi.Options{})}}
	node, stop, err := startNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"gone", "stays"} {
		if _, err := node.Scheduler().PutJob(t.Context(), carillon.Job{Namespace: namespace, Name: "dapr/app/a/n",
			Schedule: "@yearly", Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "a"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	c.Log = slog.New(slog.NewTextHandler(log, nil))
	if err := f.followNamespaces(&c); err != nil {
		t.Fatal(err)
	}
	node, stop, err = startNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for line := range log {
		if strings.Contains(line, "namespace=gone jobs=1") {
			break
		}
	}
	for namespace, want := range map[string]int{"gone": 0, "stays": 1} {
		page, err := node.Scheduler().ListJobs(t.Context(), carillon.JobQuery{Namespace: namespace})
		if err != nil || len(page.Jobs) != want {
			t.Errorf("%s has %d jobs, %v; want %d", namespace, len(page.Jobs), err, want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// lines is a log, a line at a time; what nobody reads is dropped.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}
