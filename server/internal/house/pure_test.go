package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// pure are the packages without a clock and without I/O; silent are those, of them, that have no goroutine,
// channel, lock or context either.
var (
	pure = []string{"schedule", ".", "server/internal/delivery", "server/internal/partition",
		"server/internal/permit", "internal/wire", "server/store", "server/store/codec"}
	silent = []string{"server/internal/delivery", "server/internal/partition", "server/internal/permit"}
)

// clocks are the functions of package time that read a clock or wait for one.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTicker", "NewTimer"}

// outsideWorld are packages of the standard library that do I/O or differ from call to call. net/url and the
// status codes of net/http are words, not I/O.
var outsideWorld = []string{"os", "os/exec", "os/signal", "net", "net/rpc", "log", "log/slog", "syscall",
	"io/fs", "path/filepath",
	"runtime", "runtime/debug", "crypto/rand", "math/rand", "math/rand/v2"}

func TestPurePackages(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || !slices.Contains(pure, s.pkg()) {
			continue
		}
		for _, complaint := range impurities(s, slices.Contains(silent, s.pkg())) {
			t.Error(complaint)
		}
	}
}

// impurities lists what a pure file must not have.
func impurities(s source, silent bool) []string {
	var found []string
	report := func(p token.Pos, what string) {
		found = append(found, s.fset.Position(p).String()+": "+what+" in a pure package")
	}
	for _, i := range s.file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		if slices.Contains(outsideWorld, path) {
			report(i.Pos(), "import of "+path)
		}
		if silent && (path == "context" || within(path, "sync")) {
			report(i.Pos(), "import of "+path)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if what := impure(n, silent); what != "" {
			report(n.Pos(), what)
		}
		return true
	})
	return found
}

// impure names what a node does that a pure package must not; "" is nothing.
func impure(n ast.Node, silent bool) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
			return "time." + n.Sel.Name
		}
	case *ast.GoStmt:
		if silent {
			return "a goroutine"
		}
	case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
		if silent {
			return "a channel"
		}
	}
	return ""
}

func TestImpuritiesAreFound(t *testing.T) {
	const text = `package p
import ("context"; "os"; "time")
func f(ctx context.Context, c chan int) {
	go f(ctx, c)
	c <- 1
	select {}
	os.Exit(int(time.Now().Unix()))
	_ = time.Unix(0, 0).After(time.Time{})
}`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := source{path: "p.go", file: file, fset: fset}
	if got := impurities(s, true); len(got) != 7 {
		t.Errorf("%d impurities found, want 7: %q", len(got), got)
	}
	if got := impurities(s, false); len(got) != 2 {
		t.Errorf("%d impurities found in a package that may have goroutines, want 2: %q", len(got), got)
	}
}
