package kubens_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAFileThatCannotBeRead: what is in it is lost, nothing else.
func TestAFileThatCannotBeRead(t *testing.T) {
	for _, content := range []string{"", "{", `{"namespaces": ["never"]}`, `["never"]`} {
		bubble(t, ab, everywhere, func(r *rig) {
			r.write(content)
			r.start()
			r.wantGone(content)
			r.wantLogged("it is not known which namespaces Kubernetes had before")
			r.api.remove("a")
			r.pass(time.Second)
			r.wantGone("after a was deleted", "a")
			r.stop()
			r.api.remove("b")
			r.start()
			r.wantGone("at the next start", "a", "b")
		})
	}
}

// TestAFileThatCannotBeWritten: what is deleted while the node runs goes; the log says once what is missing, and the file
// is written when it can be.
func TestAFileThatCannotBeWritten(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		folder := filepath.Dir(r.file)
		if err := os.WriteFile(folder, nil, 0o600); err != nil { // a file in the place of the folder
			t.Fatal(err)
		}
		r.start()
		r.api.remove("a")
		r.pass(time.Second)
		r.wantGone("without a file", "a")
		if n := strings.Count(r.log.String(), "cannot be kept"); n != 1 {
			t.Errorf("%d lines:\n%s", n, r.log.String())
		}
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Hour)
		r.stop()
		r.api.remove("b")
		r.start()
		r.wantGone("with a file", "a", "b")
	})
}

// TestTheFile: what it says, and whom it is for.
func TestTheFile(t *testing.T) {
	bubble(t, ab, nil, func(r *rig) {
		r.start()
		want := `{"cluster":"cluster-1","namespaces":["a","b","kube-system"]}` + "\n"
		if got, err := os.ReadFile(r.file); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		r.api.create("c")
		r.api.remove("a")
		r.pass(time.Second)
		want = `{"cluster":"cluster-1","namespaces":["b","c","kube-system"]}` + "\n"
		if got, err := os.ReadFile(r.file); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		if all, err := os.ReadDir(filepath.Dir(r.file)); err != nil || len(all) != 1 {
			t.Errorf("beside it: %v, %v", all, err)
		}
	})
}

func (r *rig) write(content string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.file), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.file, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}
