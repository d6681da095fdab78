// Command licences writes the licences of everything that is linked into the binary, on any of the systems
// that it is built for.
//
//	licences OUT
//
// It is run in the root of the project.
package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: licences OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	dirs := map[string]string{} // by module and version
	for _, system := range []string{"linux", "darwin", "windows"} {
		if err := linked(system, dirs); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	text.WriteString("Licences of what is linked into the binary carillon, besides its own. Made by go generate ./server/cmd/carillon.\n")
	goLicence, err := os.ReadFile(filepath.Join(runtime.GOROOT(), "LICENSE"))
	if err != nil {
		return err
	}
	add(&text, "Go and its standard library", goLicence)
	for _, module := range slices.Sorted(maps.Keys(dirs)) {
		files, err := licencesIn(dirs[module])
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("%s has no licence in %s: do not link it", module, dirs[module])
		}
		for _, file := range files {
			licence, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			add(&text, module+": "+filepath.Base(file), licence)
		}
	}
	if err := ofPage(&text); err != nil {
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}

// ofPage adds the licences of what the page in the browser is built of. Its build collects them.
func ofPage(text *bytes.Buffer) error {
	licence, err := os.ReadFile("server/internal/page/dist/LICENSES.txt")
	if err != nil {
		return err
	}
	add(text, "The page in the browser, of npm", licence)
	return nil
}

// linked adds the modules of which something is linked on a system.
func linked(system string, dirs map[string]string) error {
	list := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./server/cmd/carillon")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			dirs[module] = dir
		}
	}
	return nil
}

// name is what files with licences, and notices that some of those ask to be handed on, are called.
var name = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([-.].*)?$`)

func licencesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var files []string
	for _, e := range entries {
		if e.Type().IsRegular() && name.MatchString(e.Name()) && !strings.HasSuffix(e.Name(), ".go") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

func add(text *bytes.Buffer, title string, licence []byte) {
	fmt.Fprintf(text, "\n%s\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), title, strings.Repeat("=", 80),
		bytes.TrimSpace(bytes.ReplaceAll(licence, []byte("\r\n"), []byte("\n"))))
}
