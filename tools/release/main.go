// Command release makes a folder from which Go fetches the project's modules as from a proxy, to try a
// release before its tags are pushed:
//
//	release FOLDER VERSION
//	GOPROXY=file://FOLDER,https://proxy.golang.org GONOSUMDB=github.com/carillonhq/* \
//		go install github.com/carillonhq/carillon/server/cmd/carillon@VERSION
//
// It is run in the root of the project, and takes the files that git knows. Both modules get the version, and
// the server's asks for the user's of that version, as the commit of a release does (docs/releasing.md).
package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const root = "github.com/carillonhq/carillon"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: release FOLDER VERSION")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(folder, version string) error {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	files := slices.DeleteFunc(strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"),
		func(f string) bool {
			info, err := os.Lstat(f)
			return err != nil || !info.Mode().IsRegular()
		})
	for module, dir := range map[string]string{root: "", root + "/server": "server/"} {
		if err := publish(filepath.Join(folder, module, "@v"), module, version, dir, files); err != nil {
			return fmt.Errorf("%s: %w", module, err)
		}
	}
	return nil
}

// required is the line of the server's go.mod that asks for the user's module.
var required = regexp.MustCompile(`(?m)^(\s*(?:require )?` + regexp.QuoteMeta(root) + `) v\S+`)

// publish writes a module's version into its folder of the proxy.
func publish(to, module, version, dir string, files []string) error {
	mod, err := os.ReadFile(dir + "go.mod")
	if err != nil {
		return err
	}
	mod = required.ReplaceAll(mod, []byte("${1} "+version))
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range filesOf(dir, files) {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if name == dir+"go.mod" {
			text = mod
		}
		w, err := z.Create(module + "@" + version + "/" + strings.TrimPrefix(name, dir))
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339))
	for name, text := range map[string][]byte{".zip": b.Bytes(), ".mod": mod, ".info": []byte(info)} {
		if err := os.WriteFile(filepath.Join(to, version+name), text, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(to, "list"), []byte(version+"\n"), 0o644)
}

// filesOf returns the files of the module in a folder: those below it, without those of modules inside of it.
func filesOf(dir string, files []string) (own []string) {
	var others []string
	for _, f := range files {
		if strings.HasSuffix(f, "/go.mod") && strings.HasPrefix(f, dir) && f != dir+"go.mod" {
			others = append(others, strings.TrimSuffix(f, "go.mod"))
		}
	}
	for _, f := range files {
		inside := slices.ContainsFunc(others, func(o string) bool { return strings.HasPrefix(f, o) })
		if strings.HasPrefix(f, dir) && !inside {
			own = append(own, f)
		}
	}
	return own
}
