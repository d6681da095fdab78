package daprmove_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/carillonhq/carillon/server/internal/daprmove"
	"github.com/carillonhq/carillon/server/internal/etcdfolder"
)

// The same jobs of a scheduler of Dapr 1.18.3 as a data folder and as `dapr scheduler export` wrote them.
const (
	packedFolder = "../etcdfolder/testdata/dapr-1.18.3.tar.gz"
	exportFile   = "testdata/dapr-1.18.3.export"
)

// unpacked is the data folder where a scheduler with the id has it.
func unpacked(t *testing.T, id string) string {
	t.Helper()
	dir := t.TempDir()
	member := filepath.Join(dir, id, "dapr-0.1", "member")
	check(t, os.MkdirAll(member, 0o700))
	check(t, exec.Command("tar", "-xzf", packedFolder, "-C", member).Run())
	return dir
}

// TestMain reads a folder if the process was started for that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == etcdfolder.ChildCommand {
		if err := etcdfolder.Child(os.Stdin, os.Stdout, os.Args[2:]); err != nil {
			panic(err)
		}
		return
	}
	m.Run()
}

// etcd runs an etcd with the default flags until the test ends, and returns its address.
func etcd(t *testing.T) string {
	t.Helper()
	return etcdIn(t, t.TempDir())
}

// etcdIn runs an etcd that keeps its data in a folder.
func etcdIn(t *testing.T, dir string) string {
	t.Helper()
	c := embed.NewConfig()
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.Dir, c.ListenClientUrls, c.ListenPeerUrls = dir, free, free
	e := started(t, c)
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return "http://" + e.Clients[0].Addr().String()
}

func started(t *testing.T, c *embed.Config) *embed.Etcd {
	t.Helper()
	c.LogLevel, c.UnsafeNoFsync = "fatal", true
	e, err := embed.StartEtcd(c)
	check(t, err)
	return e
}

func digest(t *testing.T, s *daprmove.State) daprmove.Digest {
	t.Helper()
	d, err := daprmove.DigestOf(s.Records)
	check(t, err)
	return d
}

func TestAFolderHasWhatIsExported(t *testing.T) {
	folder, err := daprmove.Read(t.Context(), []string{unpacked(t, "default-s-0")}, daprmove.Access{})
	check(t, err)
	file, err := daprmove.Read(t.Context(), []string{exportFile}, daprmove.Access{})
	check(t, err)
	if len(folder.Faults)+len(file.Faults) > 0 || len(file.Records) != 49 || digest(t, folder) != digest(t, file) {
		t.Errorf("the folder has %v and %v, the file %v and %v", digest(t, folder), folder.Faults, digest(t, file), file.Faults)
	}
	two, err := daprmove.Read(t.Context(), []string{unpacked(t, "a"), unpacked(t, "b")}, daprmove.Access{})
	check(t, err)
	if two.ID != folder.ID {
		t.Error("two members have another state than one")
	}
}

func TestSourcesThatAreNone(t *testing.T) {
	torn := filepath.Join(t.TempDir(), "torn")
	b, err := os.ReadFile(exportFile)
	check(t, err)
	check(t, os.WriteFile(torn, b[:len(b)/2], 0o600))
	for want, sources := range map[string][]string{
		"no source":               nil,
		"several kinds":           {exportFile, t.TempDir()},
		"no such file":            {filepath.Join(t.TempDir(), "none")},
		"no folder member":        {t.TempDir()},
		"no file of dapr":         {torn},
		"http://127.0.0.1:1: ":    {"http://127.0.0.1:1"},
		"are of several kinds: g": {"http://127.0.0.1:1", exportFile},
	} {
		if strings.HasPrefix(want, "http") && testing.Short() {
			continue // it waits for an answer
		}
		if _, err := daprmove.Read(t.Context(), sources, daprmove.Access{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %q", sources, err, want)
		}
	}
}
