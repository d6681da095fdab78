package realserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Kubernetes is an API server of Kubernetes over an etcd of its own. Nothing else of a cluster runs: there
// are objects, and nobody who acts on them.
type Kubernetes struct {
	URL string

	folder  string
	program Program
	process *Process
	client  *http.Client
}

// Tokens of users of the API server.
const (
	adminToken = "admin-token"
	// ServiceToken is that of the user "service", who has the rights that a test gives it.
	ServiceToken = "service-token"
)

// StartKubernetes starts an API server that ends with the test. KUBEBUILDER_ASSETS names the folder of the
// binaries kube-apiserver and etcd, as for envtest; without it the test is skipped.
func StartKubernetes(t testing.TB) *Kubernetes {
	t.Helper()
	binaries := os.Getenv("KUBEBUILDER_ASSETS")
	if binaries == "" {
		t.Skip("KUBEBUILDER_ASSETS, the folder of kube-apiserver and etcd, is not set")
	}
	etcd := startEtcd(t, filepath.Join(binaries, "etcd"))
	k := &Kubernetes{folder: Folder(t, "")}
	port := strconv.Itoa(Port(t))
	k.URL = "https://127.0.0.1:" + port
	tokens := k.write(t, "tokens.csv",
		adminToken+",admin,admin,system:masters\n"+ServiceToken+",service,service\n")
	key := k.write(t, "accounts.key", privateKey(t))
	k.program = Program{Path: filepath.Join(binaries, "kube-apiserver"), Folder: k.folder, Args: []string{
		"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + k.folder,
		"--authorization-mode=RBAC", "--token-auth-file=" + tokens, "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://localhost", "--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key, "--disable-admission-plugins=ServiceAccount"}}
	k.Up(t)
	return k
}

// startEtcd starts an etcd of one member and returns its URL.
func startEtcd(t testing.TB, binary string) string {
	t.Helper()
	client, peer := fmt.Sprint("http://127.0.0.1:", Port(t)), fmt.Sprint("http://127.0.0.1:", Port(t))
	process := Start(t, Program{Path: binary, Args: []string{"--data-dir", Folder(t, ""), "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer}})
	process.Ready(t, func(ctx context.Context) error {
		_, err := get(ctx, &http.Client{}, client+"/health", "")
		return err
	})
	return client
}

func privateKey(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// write writes a file into the server's folder.
func (k *Kubernetes) write(t testing.TB, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(k.folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Up starts the server, after Down too, and waits until it answers and has the namespaces of the system.
func (k *Kubernetes) Up(t testing.TB) {
	t.Helper()
	k.process = Start(t, k.program)
	k.process.Ready(t, func(ctx context.Context) error {
		if err := k.trust(); err != nil {
			return err
		}
		if _, err := get(ctx, k.client, k.URL+"/readyz", adminToken); err != nil {
			return err
		}
		_, err := get(ctx, k.client, k.URL+"/api/v1/namespaces/kube-system", adminToken)
		return err
	})
}

// trust makes a client of the certificate that the server has made for itself.
func (k *Kubernetes) trust() error {
	certificates, err := os.ReadFile(k.certificates())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificates)
	k.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots}}}
	return nil
}

func (k *Kubernetes) certificates() string { return filepath.Join(k.folder, "apiserver.crt") }

// Down kills the server.
func (k *Kubernetes) Down(t testing.TB) {
	t.Helper()
	if err := k.process.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-k.process.Exited()
}

// Kubeconfig returns a file by which clients reach the server as the user of a token.
func (k *Kubernetes) Kubeconfig(t testing.TB, token string) (path string) {
	t.Helper()
	return k.write(t, token+".yaml", fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: it, user: {token: %q}}]
`, k.URL, k.certificates(), token))
}

// Create makes an object, given as JSON, in the collection at the path.
func (k *Kubernetes) Create(t testing.TB, path, object string) {
	t.Helper()
	k.do(t, http.MethodPost, path, object)
}

// CreateNamespace makes a namespace.
func (k *Kubernetes) CreateNamespace(t testing.TB, name string) {
	t.Helper()
	k.Create(t, "/api/v1/namespaces", `{"metadata": {"name": "`+name+`"}}`)
}

// DeleteNamespace deletes a namespace, and then does what the controller of namespaces does once it is
// empty.
func (k *Kubernetes) DeleteNamespace(t testing.TB, name string) {
	t.Helper()
	k.do(t, http.MethodDelete, "/api/v1/namespaces/"+name, "")
	k.do(t, http.MethodPut, "/api/v1/namespaces/"+name+"/finalize",
		`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+name+`"}, "spec": {"finalizers": []}}`)
}

// do makes a call as the administrator.
func (k *Kubernetes) do(t testing.TB, method, path, body string) {
	t.Helper()
	if _, err := call(t.Context(), k.client, method, k.URL+path, adminToken, body); err != nil {
		t.Fatal(err)
	}
}

func get(ctx context.Context, client *http.Client, url, token string) ([]byte, error) {
	return call(ctx, client, http.MethodGet, url, token, "")
}

// call makes a call, which must succeed.
func call(ctx context.Context, client *http.Client, method, url, token, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, answer)
	}
	return answer, err
}
