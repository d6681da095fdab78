package client

import (
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
		if got, _, err := target(c.addr); got != c.want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", c.addr, got, err, c.want)
		}
	}
	for _, addr := range []string{"", "a:1,", ",", "a:1,dns:///b:1"} {
		if _, _, err := target(addr); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("%q: got %v, want that it is refused", addr, err)
		}
	}
}
