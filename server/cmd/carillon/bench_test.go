package main

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestABenchTakesNoContextUnasked: load is only for a node that the command line or CARILLON_SERVER names.
func TestABenchTakesNoContextUnasked(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("CARILLON_SERVER", "")
	c := contexts{Current: "prod", Contexts: map[string]*place{"prod": {Server: "prod.example"}}}
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"", "prod"} {
		t.Setenv("CARILLON_CONTEXT", named)
		for _, words := range [][]string{nil, {"--context", "prod"}} {
			var f benchFlags
			flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
			f.add(flags)
			if err := flags.Parse(words); err != nil {
				t.Fatal(err)
			}
			want := defaultServer
			if words != nil {
				want = "prod.example"
			}
			if f.resolve(flags); f.server != want || f.fault != nil {
				t.Errorf("CARILLON_CONTEXT %q, %q: %s, %v", named, words, f.server, f.fault)
			}
		}
	}
}
