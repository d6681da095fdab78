package main

import (
	"os"
	"strings"
	"testing"
)

// manifests is what is applied without Helm; the chart is checked by .ci/run deploy.
const manifests = "../../deploy/kubernetes/carillon.yaml"

func text(t *testing.T) string {
	t.Helper()
	all, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestTheManifestsAreRight(t *testing.T) {
	if err := check([]byte(text(t))); err != nil {
		t.Error(err)
	}
}

// TestWhatIsWrongIsFound changes one line of the manifests at a time.
func TestWhatIsWrongIsFound(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown field", "podManagementPolicy: Parallel", "podManagment: Parallel", `unknown field "spec.podManagment"`},
		{"field of another case", "readOnlyRootFilesystem: true", "readonlyRootFilesystem: true", "readonlyRootFilesystem"},
		{"wrong type", "replicas: 3", "replicas: three", "cannot unmarshal string"},
		{"field twice", "replicas: 3", "replicas: 3\n  replicas: 4", `"replicas" already set`},
		{"unknown kind", "kind: StatefulSet", "kind: StatefulSett", "apps/v1 StatefulSett is not known here"},
		{"old version", "apiVersion: policy/v1\n", "apiVersion: policy/v1beta1\n", "policy/v1beta1 PodDisruptionBudget"},
		{"quantity", "memory: 512Mi", "memory: 512MB", "quantities must match"},
		{"no kind", "kind: Secret", "", "is not known here"},
		{"root", "runAsUser: 65532", "runAsUser: 0", "may run as root"},
		{"not read-only", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "a read-only root"},
		{"capabilities", "drop: [ALL]", "drop: []", "all capabilities dropped"},
		{"seccomp", "type: RuntimeDefault", "type: Unconfined", "seccompProfile"},
		{"token", "automountServiceAccountToken: false", "", "automountServiceAccountToken"},
		{"host", "enableServiceLinks: false", "hostNetwork: true #", "a namespace of its host"},
		{"mount", "{name: tmp, mountPath: /tmp}", "{name: data, mountPath: /tmp}", "data is mounted at /tmp"},
		{"variable twice", "name: CARILLON_GRPC", "name: CARILLON_HTTP", "CARILLON_HTTP is there twice"},
		{"port of a service", "targetPort: grpc, appProtocol", "targetPort: rpc, appProtocol", "has rpc"},
		{"port of a probe", "{path: /readyz, port: http}", "{path: /readyz, port: https}", "no readinessProbe"},
		{"service", "serviceName: carillon-nodes", "serviceName: carillon", `no headless service "carillon"`},
		{"everybody", "    - from:\n        - podSelector:\n            matchLabels: {app.kubernetes.io/name: carillon}\n" +
			"        - podSelector:\n            matchLabels: {carillon-client: \"true\"}\n      ports:", "    - ports:",
			"ingress from everywhere"},
		{"limit", "limits: {memory: 1Gi}", "", "a limit of memory"},
		{"two of a name", "name: carillon-nodes\n  labels", "name: carillon\n  labels", "it is there twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := text(t)
			if !strings.Contains(all, c.old) {
				t.Fatalf("the manifests do not have %q", c.old)
			}
			err := check([]byte(strings.Replace(all, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
	if err := check([]byte("# a comment\n")); err == nil || !strings.Contains(err.Error(), "no object") {
		t.Errorf("a file without objects: %v", err)
	}
}
