package main

import (
	"io"
	"strings"
	"testing"
)

func TestUnknownVariablesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"CARILLON_STORE", ""},
		{"CARILLON_ALLOW_TARGET", ""},
		{"CARILLON_CONFIG", ""},
		{"CARILLON_SERVER", ""},
		{"CARILLON_NAMESPACE", ""},
		{"CARILLON_RUN_ID", ""},
		{"CARILLON_TEST_REQUIRE", ""},
		{"CARILLON_SERVICE_HOST", ""},
		{"CARILLON_HEADLESS_SERVICE_PORT_GRPC", ""},
		{"CARILLON_PORT", ""},
		{"CARILLON_PORT_7070_TCP_ADDR", ""},
		{"CARILLONX", ""},
		{"CARILLON_GRPC_LISTEN", ""},                           // of dapr-scheduler
		{"CARILLON_ETCD_DATA_DIR", "there is no such setting"}, // of Dapr's scheduler
		{"CARILLON_STOER", "did you mean CARILLON_STORE?"},
		{"CARILLON_SERVERS", "did you mean CARILLON_SERVER?"},
		{"CARILLON_PREFIX", "there is no such setting"}, // a flag, but none that is read from the environment
		{"CARILLON_HELP", "there is no such setting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, "x")
			err := checkEnvironment(newRoot(newApp(strings.NewReader(""), io.Discard, io.Discard)))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.name+": ") ||
				!strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
