package realserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Etcd is a member of an etcd cluster, which may have no others.
type Etcd struct {
	Port   int
	Peer   int    // the port for other members
	Folder string // of its data

	daemon
}

// StartEtcd starts an etcd of one member that ends with the test. Settings are more of its flags,
// "name=value"; [VolatileEtcd] makes it faster where no machine crashes.
func StartEtcd(t testing.TB, settings ...string) *Etcd {
	t.Helper()
	return StartEtcdCluster(t, 1, settings...)[0]
}

// peers is the member's URL for others.
func (e *Etcd) peers() string { return fmt.Sprint("http://127.0.0.1:", e.Peer) }

// StartEtcdTLS starts an etcd of one member that shows a certificate and wants one of its clients, both of
// the same authority.
func StartEtcdTLS(t testing.TB, certificate, key string) *Etcd {
	t.Helper()
	path := Binary(t, "etcd")
	e := &Etcd{Port: Port(t), Peer: Port(t), Folder: Folder(t, "")}
	url := "https://" + e.Address()
	e.program = Program{Path: path, Folder: e.Folder, Args: []string{
		"--data-dir", filepath.Join(e.Folder, "data"), "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", e.peers(), "--cert-file", certificate, "--key-file", key, "--trusted-ca-file",
		certificate, "--client-cert-auth", "--log-level", "error"}}
	e.process = Start(t, e.program)
	e.process.Ready(t, func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", e.Address())
		if err != nil {
			return err
		}
		return c.Close()
	})
	return e
}

// VolatileEtcd are settings of an etcd that does not wait for its disk: it survives a kill, and no crash of
// the machine.
func VolatileEtcd() []string { return []string{"unsafe-no-fsync=true"} }

// StartEtcdCluster starts an etcd cluster of so many members, which ends with the test.
func StartEtcdCluster(t testing.TB, members int, settings ...string) []*Etcd {
	t.Helper()
	path := Binary(t, "etcd")
	all := make([]*Etcd, members)
	var initial []string
	for i := range all {
		all[i] = &Etcd{Port: Port(t), Peer: Port(t), Folder: Folder(t, "")}
		initial = append(initial, fmt.Sprintf("m%d=http://127.0.0.1:%d", i, all[i].Peer))
	}
	for i, e := range all {
		e.program = Program{Path: path, Folder: e.Folder, Args: []string{
			"--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(e.Folder, "data"),
			"--listen-client-urls", "http://" + e.Address(),
			"--advertise-client-urls", "http://" + e.Address(),
			"--listen-peer-urls", e.peers(), "--initial-advertise-peer-urls", e.peers(),
			"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-state", "new",
			"--heartbeat-interval", "50", "--election-timeout", "500", "--log-level", "warn"}}
		for _, s := range settings {
			e.program.Args = append(e.program.Args, "--"+s)
		}
		e.process = Start(t, e.program)
	}
	for _, e := range all {
		e.ready(t)
	}
	return all
}

// Up starts the member again, after Crash or Down, and waits until it serves.
func (e *Etcd) Up(t testing.TB) {
	t.Helper()
	e.process = Start(t, e.program)
	e.ready(t)
}

func (e *Etcd) ready(t testing.TB) {
	t.Helper()
	e.process.Ready(t, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address()+"/health", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := (&http.Client{Timeout: patience}).Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(body), `"health":"true"`) {
			err = fmt.Errorf("it says %s", body)
		}
		return err
	})
}

// Wipe takes away what a member that does not run has kept.
func (e *Etcd) Wipe(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(e.Folder, "data")); err != nil {
		t.Fatal(err)
	}
}

// Address is where the member listens for clients.
func (e *Etcd) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(e.Port)) }

// Addresses are those of several members.
func Addresses(members []*Etcd) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.Address()
	}
	return out
}

// Copy copies the data of a member that does not run, for [Etcd.Restore].
func (e *Etcd) Copy(t testing.TB) string {
	t.Helper()
	folder := Folder(t, "")
	if err := os.CopyFS(filepath.Join(folder, "data"), os.DirFS(filepath.Join(e.Folder, "data"))); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Restore puts what Copy has copied in the place of the data of a member that does not run.
func (e *Etcd) Restore(t testing.TB, folder string) {
	t.Helper()
	e.Wipe(t)
	if err := os.CopyFS(filepath.Join(e.Folder, "data"), os.DirFS(filepath.Join(folder, "data"))); err != nil {
		t.Fatal(err)
	}
}
