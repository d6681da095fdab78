package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/carillonhq/carillon/server/internal/server"
)

// rewrite makes the tests write what they would otherwise compare: go test ./server/cmd/carillon -rewrite.
var rewrite = flag.Bool("rewrite", false, "write docs/cli.md and the outputs in testdata again")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"carillon": main, daprProgram: main})
}

// TestScripts runs testdata/script: each script has a node of its own, in this process, at $CARILLON_SERVER
// and $HTTP.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of processes, which take a second each to start under the race detector")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *rewrite,
		RequireExplicitExec: true,
		Setup:               setupNode,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "eventually": eventually,
			"member": member, "page": page, "sidecar": sidecar,
			"tool": tool},
	})
}

// setupNode starts the script's node.
func setupNode(env *testscript.Env) error {
	ctx, cancel := context.WithCancel(context.Background())
	node, stop, err := startNode(ctx, server.Config{Store: "memory:", Partitions: 4, GRPC: "127.0.0.1:0",
		Payloads: &server.Payloads{Store: "file:" + filepath.Join(env.WorkDir, "payloads")}, HTTP: "127.0.0.1:0", Targets: server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, DrainGrace: -1})
	if err != nil {
		cancel()
		return err
	}
	env.Defer(func() {
		defer cancel()
		if err := stop(); err != nil {
			env.T().Log("the node:", err)
		}
	})
	env.Setenv("CARILLON_SERVER", node.GRPCAddr())
	env.Setenv("HTTP", node.HTTPAddr())
	env.Setenv("TZ", "UTC")
	exported, err := filepath.Abs("../../internal/daprmove/testdata/dapr-1.18.3.export")
	env.Setenv("EXPORTED", exported)
	folder, other := filepath.Abs("../../internal/etcdfolder/testdata/dapr-1.18.3.tar.gz")
	env.Setenv("FOLDER", folder)
	return errors.Join(err, other)
}

// exits runs a command and checks its exit code: exits 2 carillon job frob.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// eventually repeats a command until its output matches: eventually PATTERN carillon job runs a.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN COMMAND [ARG]...")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("no output of %q matched %q within 20 s", args[1:], args[0])
}

// member keeps a text of the JSON that was printed last in the environment: member next_page_token TOKEN.
func member(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: member NAME VARIABLE")
	}
	var printed map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &printed))
	text, ok := printed[args[0]].(string)
	if !ok {
		ts.Fatalf("no text %s in %v", args[0], printed)
	}
	ts.Setenv(args[1], text)
}
