package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/server"
)

// flagsForTest are a flag of each kind.
func flagsForTest() (flags *pflag.FlagSet, name *string, many *[]string, n *int) {
	flags = pflag.NewFlagSet("test", pflag.ContinueOnError)
	name = flags.String("the-name", "default", "")
	many = flags.StringSlice("many", nil, "")
	n = flags.Int("number", 1, "")
	flags.String("config", "", "")
	return flags, name, many, n
}

func TestFromFile(t *testing.T) {
	flags, name, many, n := flagsForTest()
	var secrets map[string][]string
	text := "the_name: x\nmany: [a, b]\nnumber: 7\nsecrets:\n  ns: [s]\n"
	given := map[string]bool{"number": true}
	if err := fromFile(flags, given, "f.yaml", []byte(text), map[string]any{"secrets": &secrets}); err != nil {
		t.Fatal(err)
	}
	if *name != "x" || strings.Join(*many, " ") != "a b" || *n != 1 || secrets["ns"][0] != "s" {
		t.Errorf("name %q, many %q, number %d (given on the command line: not to be changed), secrets %v",
			*name, *many, *n, secrets)
	}
}

func TestFromFileSaysAllThatIsWrong(t *testing.T) {
	flags, name, _, _ := flagsForTest()
	text := "the_nam: x\nnumber: many\nmany: {a: b}\nthe_name: [a, b]\nconfig: f\nwholly_different: 1\nnumber: 2\n"
	err := fromFile(flags, map[string]bool{}, "f.yaml", []byte(text), nil)
	if err == nil || *name != "default" {
		t.Fatalf("%v, name %q", err, *name)
	}
	for _, want := range []string{
		`f.yaml:1: unknown key "the_nam"; did you mean "the_name"?`,
		`f.yaml:2: number: `,
		`f.yaml:3: many: want a plain value or a list`,
		`f.yaml:4: the_name: want one value, not a list`,
		`f.yaml:5: unknown key "config"`,
		`f.yaml:6: unknown key "wholly_different"`,
		`f.yaml:7: number: it is there twice`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestFromFileThatIsNone(t *testing.T) {
	for text, good := range map[string]bool{"": true, "# nothing\n": true, "- a\n": false,
		"a: [": false, "x": false} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		if err := fromFile(flags, map[string]bool{}, "f.yaml", []byte(text), nil); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv("CARILLON_THE_NAME", "from the environment")
	t.Setenv("CARILLON_MANY", "a,b")
	t.Setenv("CARILLON_NUMBER", "7")
	t.Setenv("CARILLON_CONFIG", "ignored")
	flags, name, many, n := flagsForTest()
	if err := fromEnvironment(flags, map[string]bool{"number": true}); err != nil {
		t.Fatal(err)
	}
	if *name != "from the environment" || strings.Join(*many, " ") != "a b" || *n != 1 {
		t.Errorf("name %q, many %q, number %d", *name, *many, *n)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"schedule", "store", "server", "put", "get", "list"}
	for typed, want := range map[string]string{
		"scheduel": "schedule", "sched": "schedule", "stroe": "store", "pt": "put", "lsit": "list",
		"frobnicate": "", "x": "", "": "",
	} {
		if got := nearest(typed, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
}

// TestDrainGrace: no grace is not the default grace, and a negative one is none at all.
func TestDrainGrace(t *testing.T) {
	for given, want := range map[string]time.Duration{"": server.DefaultDrainGrace, "3s": 3 * time.Second,
		"0": -1, "-1s": 0} {
		s := serveFlags()
		cmd := &cobra.Command{}
		s.add(cmd.Flags())
		line := []string{"--store", "memory:"}
		if given != "" {
			line = append(line, "--drain-grace", given)
		}
		if err := cmd.ParseFlags(line); err != nil {
			t.Fatal(err)
		}
		c, err := s.resolve(cmd, io.Discard)
		if (err == nil) != (want != 0) || want != 0 && c.DrainGrace != want {
			t.Errorf("%q: %v, %v", given, c.DrainGrace, err)
		}
	}
}

func TestASettingIsRefusedInPlainWords(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Int("number", 1, "")
	flags.Duration("wait", 0, "")
	err := fromFile(flags, map[string]bool{}, "f.yaml", []byte("number: many\nwait: long\n"), nil)
	if err == nil || err.Error() != "f.yaml:1: number: \"many\" is not a whole number\nf.yaml:2: wait: \"long\" is not a duration such as 30s or 5m" {
		t.Errorf("%v", err)
	}
}
