package kubens_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/kubens"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// rights are those that Dapr's chart gives the service account of its scheduler.
const rights = `{"metadata": {"name": "dapr-scheduler"}, "rules": [
	{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}]}`

const whose = `{"metadata": {"name": "dapr-scheduler"}, "subjects": [{"kind": "User", "name": "service",
	"apiGroup": "rbac.authorization.k8s.io"}], "roleRef": {"kind": "ClusterRole", "name": "dapr-scheduler",
	"apiGroup": "rbac.authorization.k8s.io"}}`

// realRig is a node beside a real API server of Kubernetes.
type realRig struct {
	t       *testing.T
	k       *realserver.Kubernetes
	node    *server.Node
	file    string
	removed chan string // namespaces that are done with
}

// DeleteJobs implements [kubens.Jobs].
func (r *realRig) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	n, err := r.node.Scheduler().DeleteJobs(ctx, namespace, prefix)
	r.removed <- namespace
	return n, err
}

// follow follows the namespaces, with the rights of Dapr's chart and no others.
func (r *realRig) follow() *kubens.Watcher {
	r.t.Helper()
	client, err := kubens.Connect(r.k.Kubeconfig(r.t, realserver.ServiceToken))
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := kubens.Watch(client, kubens.Options{Jobs: r, File: r.file})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// wait waits until the watcher knows which namespaces there are.
func (r *realRig) wait() {
	r.t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := os.Stat(r.file); err == nil {
			return
		}
		select {
		case <-again.C:
		case <-r.t.Context().Done():
			r.t.Fatal("it does not know the namespaces")
		}
	}
}

// wantRemoved waits until a namespace is done with, and no other before it; left are those whose jobs must be there.
func (r *realRig) wantRemoved(name string, left ...string) {
	r.t.Helper()
	select {
	case got := <-r.removed:
		if got != name {
			r.t.Fatalf("jobs of %s are removed, want those of %s", got, name)
		}
	case <-r.t.Context().Done():
		r.t.Fatalf("jobs of %s are not removed", name)
	}
	if got := namesOf(r.t, r.node.Scheduler(), name); !slices.Equal(got, []string{"daprs-own"}) {
		r.t.Errorf("left in %s: %q", name, got)
	}
	for _, other := range left {
		if got := namesOf(r.t, r.node.Scheduler(), other); len(got) != 3 {
			r.t.Errorf("left in %s: %q", other, got)
		}
	}
}

// TestRealKubernetes follows the namespaces of a real API server: what is deleted while the node runs, while it does
// not, and while the API server does not.
func TestRealKubernetes(t *testing.T) {
	k := realserver.StartKubernetes(t)
	r := &realRig{t: t, k: k, node: startNode(t), file: filepath.Join(t.TempDir(), "namespaces.json"),
		removed: make(chan string, 100)}
	defer func() {
		if err := r.node.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	k.Create(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles", rights)
	k.Create(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", whose)
	all := []string{"first", "second", "third", "fourth", "again"}
	for _, name := range all {
		k.CreateNamespace(t, name)
		putJobs(t, r.node.Scheduler(), name)
	}
	putJobs(t, r.node.Scheduler(), "never")
	putJobs(t, r.node.Scheduler(), carillon.DefaultNamespace)

	w := r.follow()
	r.wait()
	k.DeleteNamespace(t, "first")
	r.wantRemoved("first", "second", "third", "fourth", "again", "never", carillon.DefaultNamespace)
	w.Close()

	k.DeleteNamespace(t, "second")
	k.DeleteNamespace(t, "again")
	k.CreateNamespace(t, "again")
	w = r.follow()
	r.wantRemoved("second", "third", "fourth", "again", "never", carillon.DefaultNamespace)

	k.Down(t)
	k.Up(t)
	k.DeleteNamespace(t, "third")
	r.wantRemoved("third", "fourth", "again", "never", carillon.DefaultNamespace)
	w.Close()
	if len(r.removed) > 0 {
		t.Errorf("jobs of %s are removed, too", <-r.removed)
	}
}
