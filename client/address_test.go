package client

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct{ addr, want string }{
		{"localhost", "localhost:7070"},
		{"127.0.0.1", "127.0.0.1:7070"},
		{"127.0.0.1:9000", "127.0.0.1:9000"},
		{"node:", "node:7070"},
		{"::1", "[::1]:7070"},
		{"[::1]", "[::1]:7070"},
		{"[::1]:9000", "[::1]:9000"},
		{"dns:///node:9000", "dns:///node:9000"},
		{"unix:/run/carillon.sock", "unix:/run/carillon.sock"},
		{"passthrough:whatever", "passthrough:whatever"},
		{"a:1, b", "nodes:///list"},
	} {
		if got, _, err := target(c.addr, ""); got != c.want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", c.addr, got, err, c.want)
		}
	}
	for _, addr := range []string{"", "a:1,", ",", "a:1,dns:///b:1", "http://a:1", "https://a",
		"b:1,http://a", "a:0", "a:65536", "a:1, b:70000",
		"a\x1b", "a\xff:1", "a b:1"} {
		if _, _, err := target(addr, ""); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("%q: got %v, want that it is refused", addr, err)
		}
	}
}

func TestAddressesOfAServer(t *testing.T) {
	for addr, want := range map[string][]string{
		"localhost":             {"localhost:7070"},
		"::1":                   {"[::1]:7070"},
		"a:1, b":                {"a:1", "b:7070"},
		"dns:///node:9000":      {"node:9000"},
		"dns://8.8.8.8/node":    {"node:7070"},
		"unix:/run/carillon.so": nil,
		",":                     nil,
	} {
		if got := Addresses(addr); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", addr, got, want)
		}
	}
}
