package client_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// TestNoProxyUnasked: whatever the environment says, a client connects to the node itself, and so do nodes to
// each other, which are clients; by a proxy only if it was told to. The environment is read once by a process,
// so each way has one of its own.
func TestNoProxyUnasked(t *testing.T) {
	way, child := os.LookupEnv("CARILLON_TEST_WAY")
	if !child {
		for _, way := range []string{"directly", "by proxy"} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyUnasked$", "-test.count=1")
			cmd.Env = append(os.Environ(), "CARILLON_TEST_WAY="+way, "NO_PROXY=", "no_proxy=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", way, err, out)
			}
		}
		return
	}
	reached := make(chan string, 2)
	listen := func(name string) (port string) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() { // it ends with the listener
			if conn, err := l.Accept(); err == nil {
				_ = conn.Close()
				reached <- name
			}
		}()
		_, port, err = net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	node, proxy := listen("directly"), listen("by proxy")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:"+proxy)
	var opts []client.Option
	if way == "by proxy" {
		opts = append(opts, client.WithProxyFromEnvironment())
	}
	c, err := client.Dial("0.0.0.0:"+node, opts...) // for which, other than 127.0.0.1, there may be a proxy
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.ListJobs(ctx, carillon.JobQuery{})
		ended <- err
	}()
	if got := <-reached; got != way {
		t.Errorf("connected %s", got)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("somebody has answered")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
