package house

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// banned are imports that no file may have, tests included, and why.
var banned = map[string]string{
	"log":                         "use log/slog",
	"io/ioutil":                   "use io and os",
	"math/rand":                   "use math/rand/v2, or crypto/rand for secrets",
	"github.com/pkg/errors":       "use errors and fmt",
	"github.com/golang/protobuf":  "use google.golang.org/protobuf",
	"github.com/gogo/protobuf":    "use google.golang.org/protobuf",
	"net/http/pprof":              "it registers itself on the default mux",
	"expvar":                      "it registers itself on the default mux",
	"plugin":                      "engines and targets are chosen in a plain switch",
	"C":                           "the binary is built without cgo",
	"github.com/stretchr/testify": "plain comparisons say what they compare",
}

// reserved are imports that only some packages may have outside tests, and why.
var reserved = map[string]struct {
	pkgs []string
	why  string
}{
	"testing": {[]string{"server/store/storetest", "server/internal/testing/realserver",
		"server/internal/testing/buckettest", "server/internal/testing/chaos", "server/internal/testing/collector",
		"server/internal/testing/servertest", "server/internal/testing/testca",
		"server/internal/testing/testissuer"},
		"a suite may, the product may not"},
	"os/exec": {[]string{"server/cmd/carillon", "server/internal/testing/bench", "server/internal/testing/chaos",
		"server/internal/testing/realserver", "server/internal/etcdfolder"}, "nothing in the server starts a process"},
	"os/signal": {[]string{"server/cmd/carillon", "server/examples/remote", "server/examples/outbox",
		"server/examples/kafkaworker"},
		"signals belong to the command; the rest takes a context"},
	"flag":           {nil, "the commands use cobra"},
	"unsafe":         {nil, "nothing was measured that needs it"},
	"encoding/gob":   {[]string{"server/internal/daprmove"}, "records have a format of their own"},
	"database/sql":   {[]string{"outbox"}, "each engine has its own driver"},
	"html/template":  {[]string{"server/internal/testing/checker"}, "no pages of the product yet"},
	"text/template":  {nil, "no templates yet"},
	"testing/fstest": {nil, "for tests"},
}

func TestNoBannedImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, path := range s.imports() {
			for b, why := range banned {
				if path == b || (strings.Contains(b, ".") && within(path, b)) {
					t.Errorf("%s imports %s: %s", s.path, path, why)
				}
			}
			r, ok := reserved[path]
			if ok && !s.test() && !ast.IsGenerated(s.file) && !slices.Contains(r.pkgs, s.pkg()) {
				t.Errorf("%s imports %s: %s", s.path, path, r.why)
			}
		}
	}
}

// registers reports whether a function is the init of a store's driver, which does one thing: it makes the
// driver known to programs that import the store.
func registers(s source, f *ast.FuncDecl) bool {
	if ok, _ := path.Match("server/store/*/driver.go", s.path); !ok || len(f.Body.List) != 1 {
		return false
	}
	do, ok := f.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := do.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	return ok && fun.Sel.Name == "Register"
}

func TestNoInitFunctions(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || ast.IsGenerated(s.file) {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !registers(s, f) {
				t.Errorf("%s:%d: an init function: what registers itself cannot be left out", s.path, s.line(f.Pos()))
			}
		}
	}
}

func TestNothingIsLeftForLater(t *testing.T) {
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for _, word := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"} {
					if strings.Contains(c.Text, word) {
						t.Errorf("%s:%d: a comment says %s", s.path, s.line(c.Pos()), word)
					}
				}
			}
		}
	}
}
