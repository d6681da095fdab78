package kubens_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/kubens"
)

func TestConnect(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const config = `{apiVersion: v1, kind: Config, current-context: it, contexts: [{name: it, context: {cluster: it, user: it}}],
users: [{name: it, user: {token: t}}], clusters: [{name: it, cluster: {server: "https://127.0.0.1:1"`
	for what, c := range map[string]struct{ kubeconfig, says string }{
		"outside of Kubernetes":    {"", "not in a pod of Kubernetes with a service account; give --kubeconfig"},
		"no file":                  {filepath.Join(t.TempDir(), "nowhere"), "--kubeconfig: "},
		"no YAML":                  {file("\t"), "--kubeconfig: "},
		"no cluster":               {file("{apiVersion: v1, kind: Config}"), "--kubeconfig: "},
		"no certificate authority": {file(config + `, certificate-authority: nowhere}}]}`), "--kubeconfig: "},
		"a cluster":                {file(config + `}}]}`), ""},
	} {
		_, err := kubens.Connect(c.kubeconfig)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}
