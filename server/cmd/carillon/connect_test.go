package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// TestWhatANodeSaysIsNotNoAnswer: only who was not heard is said to be away, and only that says how to choose
// another node.
func TestWhatANodeSaysIsNotNoAnswer(t *testing.T) {
	c := connection{reach: reach{server: "127.0.0.1:1"}, wait: 5 * time.Second}
	said := func(k carillon.Kind) error {
		return wire.ErrorFromStatus(wire.ErrorToStatus(carillon.Errorf(k, "", "the store could not be read")))
	}
	for what, row := range map[string]struct {
		err  error
		want string
	}{
		"it refuses":   {said(carillon.Unavailable), "the store could not be read"},
		"its deadline": {said(carillon.DeadlineExceeded), "the store could not be read"},
		"it is not there": {wire.ErrorFromStatus(status.Error(codes.Unavailable, "refused")),
			"no answer from 127.0.0.1:1; start a node with `carillon dev`, or give --server (refused)"},
		"it is too much": {wire.ErrorFromStatus(status.Error(codes.ResourceExhausted, "grpc: 5 vs. 4")),
			"the request or its answer is larger than one message may be; send or ask for less at once"},
		"it says nothing": {wire.ErrorFromStatus(status.Error(codes.DeadlineExceeded, "late")),
			"no answer from 127.0.0.1:1 within 5s"},
		"the command's own": {carillon.Errorf(carillon.DeadlineExceeded, "", "it goes on"), "it goes on"},
	} {
		e, ok := errors.AsType[*carillon.Error](c.explain(row.err))
		if !ok || e.Message != row.want || e.Kind != carillon.KindOf(row.err) {
			t.Errorf("%s: %v", what, e)
		}
	}
	if other := errors.New("other"); !errors.Is(c.explain(other), other) {
		t.Error("another error was changed")
	}
}

// TestAnHTTPPortIsTold: however the address is written, who gives that of something that is no node's gRPC is
// told so.
func TestAnHTTPPortIsTold(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	at := web.Listener.Addr().String()
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{at, at + "," + at, "127.0.0.1:1, " + at, "localhost:" + port,
		"dns:///" + at} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			got := runInProcess("job", "list", "--wait", "20s", "--server", server)
			if got.code != exitFailed || !strings.Contains(got.errs, "is it the address for HTTP?") {
				t.Errorf("exit code %d: %s", got.code, got.errs)
			}
		})
	}
}

// TestTheDefaultPortIsTried: without a port the address is that which was dialled.
func TestTheDefaultPortIsTried(t *testing.T) {
	web, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+client.DefaultPort)
	if err != nil {
		t.Skip("the port is taken:", err)
	}
	t.Cleanup(func() { web.Close() })
	c := connection{reach: reach{server: "127.0.0.1"}}
	if got := c.listening(t.Context()); got != "127.0.0.1:"+client.DefaultPort {
		t.Errorf("got %q, want the address that listens", got)
	}
}
