package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/clipperhouse/displaywidth"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagLine matches a line of the help that begins a flag.
var flagLine = regexp.MustCompile(`(?m)^  (?:-\w,|   ) --([\w-]+)`)

// everyCommand calls f for each command that the help shows.
func everyCommand(parent *cobra.Command, f func(*cobra.Command)) {
	f(parent)
	for _, cmd := range parent.Commands() {
		if !cmd.Hidden {
			everyCommand(cmd, f)
		}
	}
}

// TestUsageShowsEachFlagOnce looks at the help of every command, on a display of 80 columns.
func TestUsageShowsEachFlagOnce(t *testing.T) {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	a.on = &display{width: 80}
	everyCommand(newRoot(a), func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Usage(); err != nil {
			t.Fatal(err)
		}
		shown := map[string]int{}
		for _, m := range flagLine.FindAllStringSubmatch(out.String(), -1) {
			shown[m[1]]++
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && shown[f.Name] != 1 {
				t.Errorf("%s --%s is shown %d times", cmd.CommandPath(), f.Name, shown[f.Name])
			}
		})
		for line := range strings.Lines(out.String()) {
			text := strings.TrimRight(line, "\n")
			if meaning, ok := strings.CutPrefix(text, strings.Repeat(" ", usageColumn)); ok &&
				strings.Contains(meaning, " ") && displaywidth.String(text) > 80 {
				t.Errorf("%s: a line is too wide: %s", cmd.CommandPath(), text)
			}
		}
	})
}

// TestEveryCommandHasAGroup keeps new commands from the rest of the help by accident.
func TestEveryCommandHasAGroup(t *testing.T) {
	alone := map[string]bool{"bench": true, "completion": true, "help": true, "version": true}
	root := newRoot(newApp(strings.NewReader(""), io.Discard, io.Discard))
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && !cmd.Hidden && !alone[cmd.Name()] {
			t.Errorf("%s has no group", cmd.Name())
		}
	}
}
