package server_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

func TestConfigNamesAllItsFaults(t *testing.T) {
	err := server.Config{
		Store: "mongodb://db", Partitions: -1, GRPC: "0.0.0.0:7070", HTTP: "nowhere",
		Monitoring: server.Monitoring{Debug: "[::]:0"}, WindowJobs: -1, DeadRetention: -1,
		Limits: carillon.Bounds{Payload: -1, Metadata: -2, Labels: -3, Headers: -4},
		Targets: server.Targets{
			Allow: []netip.Prefix{{}}, HostLimit: -1, SigningSecrets: map[string][]string{"default": {"secret"}},
		},
	}.Validate()
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, want := range []string{`store: "mongodb" is not supported`, `"pebble:DIR"`, `"memory:"`,
		"partitions: -1", "grpc: 0.0.0.0:7070 is reachable",
		`http: "nowhere"`, "debug_listen: [::]:0 is reachable", "http_host_limit: -1", "window_jobs: -1",
		"dead_retention: -1ns", "max_payload: -1", "max_metadata: -2", "max_labels: -3", "max_headers: -4",
		"allow_targets[0]", "signing_secrets[default][0]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestWhereANodeMayListen(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:0": true, "127.8.8.8:0": true, "[::1]:0": true, "localhost:0": true,
		"[::ffff:127.0.0.1]:0": true, ":0": false, "0.0.0.0:0": false, "[::]:0": false, "10.0.0.1:0": false,
		"example.com:0": false, "nonsense": false, "": true,
	} {
		c := server.Config{Store: "memory:", GRPC: address}
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
		c.Insecure = true
		if err := c.Validate(); (err == nil) != (address != "nonsense") {
			t.Errorf("%q, insecure: %v", address, err)
		}
	}
}

func TestStoresThatAreRefused(t *testing.T) {
	for url, want := range map[string]string{
		"": "none is given", "pebble": "no scheme", "pebble:": "names no folder", "memory:x": "says too much",
		"host=db password=hunter2": "has no scheme", "host=db password=hunter:2": "has no scheme",
		"user:hunter2@db/carillon": "has no scheme", "memory:hunter2": "says too much",
		"mongodb://localhost":    `"mongodb" is not supported`,
		"redis://localhost:port": `"localhost:port" is no address`, "redis:localhost": "begins with redis://",
	} {
		if _, err := server.New(server.Config{Store: url}); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestATakenPortIsRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]server.Config{
		"grpc": {Store: "memory:", GRPC: taken.Addr().String(), HTTP: "127.0.0.1:0"},
		"http": {Store: "memory:", GRPC: "127.0.0.1:0", HTTP: taken.Addr().String()},
	} {
		if _, err := server.New(c); err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnOriginThatIsNoneIsRefused(t *testing.T) {
	c := server.Config{Store: "memory:", GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		Browsers: server.Browsers{TrustedOrigins: []string{"no origin"}}}
	if _, err := server.New(c); err == nil || !strings.Contains(err.Error(), "trusted_origins") {
		t.Error(err)
	}
}
