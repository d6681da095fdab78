package server

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

// at is a listener that knows its address only.
type at struct {
	net.Listener
	address string
}

func (l at) Addr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", l.address)
	if err != nil {
		panic(err) // the test's own addresses
	}
	return a
}

// TestWhereOthersReachANode: what it listens at, what it is told to advertise, and its name if it listens
// everywhere.
func TestWhereOthersReachANode(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const db = "postgres://db/jobs"
	face := []API{nil}
	for _, c := range []struct {
		what   string
		config Config
		doors  string // gRPC, HTTP and Dapr
		want   carillon.Node
	}{
		{"on loopback", Config{Store: db}, "127.0.0.1:1 127.0.0.1:2",
			carillon.Node{Address: "127.0.0.1:1", HTTP: "127.0.0.1:2"}},
		{"on all of the machine", Config{Store: db}, "0.0.0.0:1 [::]:2 [::]:3",
			carillon.Node{Address: name + ":1", HTTP: name + ":2", Sidecars: name + ":3"}},
		{"alone on all of the machine", Config{Store: "pebble:d"}, "0.0.0.0:1 - [::]:3",
			carillon.Node{Address: "0.0.0.0:1"}},
		{"a host", Config{Store: db, Advertise: "10.0.0.7", Extensions: Extensions{APIs: face}}, "0.0.0.0:1 0.0.0.0:2",
			carillon.Node{Address: "10.0.0.7:1", HTTP: "10.0.0.7:2", Sidecars: "10.0.0.7:1"}},
		{"a host and a port", Config{Store: db, Advertise: "lb:9"}, "0.0.0.0:1 0.0.0.0:2 0.0.0.0:3",
			carillon.Node{Address: "lb:9", HTTP: "lb:2", Sidecars: "lb:3"}},
		{"an IPv6 address", Config{Store: db, Advertise: "fd00::1"}, "[::]:1",
			carillon.Node{Address: "[fd00::1]:1"}},
		{"another for sidecars", Config{Store: db, Advertise: "a", AdvertiseSidecars: "b:4"},
			"0.0.0.0:1 - 0.0.0.0:3", carillon.Node{Address: "a:1", Sidecars: "b:4"}},
		{"sidecars at gRPC", Config{Store: "memory:", Extensions: Extensions{APIs: face}}, "127.0.0.1:1",
			carillon.Node{Address: "127.0.0.1:1", Sidecars: "127.0.0.1:1"}},
	} {
		s := &Server{config: c.config}
		for i, address := range strings.Fields(c.doors) {
			if address != "-" {
				s.listeners = append(s.listeners, &listener{name: []string{"grpc", "http", "dapr"}[i],
					at: at{address: address}})
			}
		}
		if got := s.self(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.what, got, c.want)
		}
	}
}

// TestWhoMayAdvertise: callers prove who they are by certificates, or by keys over TLS; keys in plain text do not do.
func TestWhoMayAdvertise(t *testing.T) {
	anyone := &Credentials{Clients: &Clients{Anyone: true}}
	for what, c := range map[string]struct {
		shown    *Credentials
		auth     string
		insecure bool
		ok       bool
	}{
		"nobody is authenticated":         {nil, "", false, false},
		"the network may do everything":   {nil, "", true, true},
		"certificates":                    {&Credentials{Clients: &Clients{}}, "", false, true},
		"no certificates of clients":      {anyone, "", false, false},
		"keys over TLS":                   {anyone, AuthKeys, false, true},
		"keys in plain text":              {nil, AuthKeys, false, false},
		"keys, and the network is closed": {nil, AuthKeys, true, true},
	} {
		config := Config{Store: "memory:", Advertise: "10.0.0.7", Insecure: c.insecure, Credentials: c.shown}
		config.Auth = c.auth
		if err := config.validateCluster(); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatCannotBeAdvertised(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "node-1": true, "node-1.example:7070": true, "10.0.0.7": true, "[fd00::1]": true, "fd00::1": true,
		"[fd00::1]:70": true, "0.0.0.0": false, "[::]:70": false, "::": false, ":70": false, "a b": false,
		"http://a": false, "a:b": false, "a:0": false, "a:70000": false, "a:": true,
	} {
		err := Config{Store: "memory:", Advertise: text, Insecure: true}.Validate()
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "advertise: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
	err := Config{Store: "redis://h", GRPC: None}.Validate()
	if err == nil || !strings.Contains(err.Error(), "grpc: there is none") {
		t.Errorf("a node that its peers cannot reach: %v", err)
	}
}
