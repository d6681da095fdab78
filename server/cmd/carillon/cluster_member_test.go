package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store/etcdembed"
)

// TestClusterMember lists, adds and removes members of a real etcd, and copies what it holds.
func TestClusterMember(t *testing.T) {
	peers := fmt.Sprintf("a=127.0.0.1:%d", realserver.PortPair(t)+1)
	url, err := etcdembed.WithPeers("etcd-embed:"+filepath.Join(t.TempDir(), "a"), peers, "a", false)
	if err != nil {
		t.Fatal(err)
	}
	o, err := etcdembed.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := etcdembed.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "snapshot")
	added := fmt.Sprintf("b=127.0.0.1:%d", realserver.PortPair(t)+1)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"member list", exitDone, "leader"},
		{"member list -o json", exitDone, `"state": "leader"`},
		{"member add b", exitUsage, "is not one member as NAME=HOST"},
		{"member add " + added, exitDone, "is added as a learner"},
		{"member list", exitDone, "not started"},
		{"member remove c", exitFailed, "give a name"},
		{"member remove http://" + strings.TrimPrefix(added, "b="), exitDone, "is removed"},
		{"snapshot " + file, exitDone, "has a copy of all keys"},
		{"snapshot " + file, exitFailed, "is there already"},
	} {
		got := runInProcess(append(append([]string{"cluster"}, strings.Fields(c.args)...), "--peers", peers)...)
		if got.code != c.code || !strings.Contains(got.out+got.errs, c.want) {
			t.Errorf("%s: %+v, want %d and %q", c.args, got, c.code, c.want)
		}
	}
	new := filepath.Join(t.TempDir(), "new")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--store etcd-embed:" + new + " --peers " + peers, exitUsage, "--node-name"},
		{"--store etcd-embed:" + new + " --node-name z --peers " + peers, exitUsage, `"z" is not among peers`},
		{"--store pebble:" + new + " --node-name a --peers " + peers, exitUsage, "etcd-embed:DIR"},
		{"--store etcd-embed:" + new + " --node-name a --peers " + peers, exitDone, "has all that"},
		{"--store etcd-embed:" + new + " --node-name a --peers " + peers, exitFailed, "is not empty"},
	} {
		got := runInProcess(append([]string{"cluster", "restore", file}, strings.Fields(c.args)...)...)
		if got.code != c.code || !strings.Contains(got.out+got.errs, c.want) {
			t.Errorf("restore %s: %+v, want %d and %q", c.args, got, c.code, c.want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Errorf("the snapshot: %v, %v", info, err)
	}
}

// TestPeersOfAnotherStore: the flag is refused where it would have no effect.
func TestPeersOfAnotherStore(t *testing.T) {
	for _, args := range []string{"serve --store memory: --peers a=127.0.0.1 --node-name a",
		"cluster member list --store redis://h --peers a=127.0.0.1"} {
		if got := runInProcess(strings.Fields(args)...); got.code != exitUsage || !strings.Contains(got.errs, "etcd in this process") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	// what docs/stores.md shows: members on other machines, without TLS
	for _, m := range []members{{peers: "n1=10.0.0.1,n2=10.0.0.2"}, {store: "etcd-embed:d", peers: "n1=10.0.0.1"}} {
		cmd := &cobra.Command{}
		admin, err := m.connect(cmd)
		if err != nil {
			t.Errorf("%+v: %v", m, err)
			continue
		}
		_ = admin.Close()
	}
	if got := runInProcess("cluster", "member", "list"); got.code != exitUsage {
		t.Errorf("neither store nor peers: %+v", got)
	}
}
