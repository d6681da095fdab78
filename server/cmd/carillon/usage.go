package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sectionKey is the annotation of a flag that names its section of the help. Flags without one come first.
const sectionKey = "carillon_section"

// The sections of flags that several commands have.
const (
	sectionConnection = "Connection"
	sectionAccess     = "Access"
	sectionLimits     = "Limit"
	sectionListening  = "Address and TLS"
	sectionLog        = "Log and trace"
	sectionPayloads   = "Payload and encryption"
	sectionPace       = "Pace and outage"
	sectionStore      = "Store and cluster"
	sectionTargets    = "Target and feed"
)

// section adds flags below a heading of their own. It panics if there is one of the same name, as flags do.
func section(flags *pflag.FlagSet, heading string, add func(*pflag.FlagSet)) {
	own := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	own.SortFlags = false
	add(own)
	own.VisitAll(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) != nil { // AddFlagSet would leave it out, and its variable unset
			panic("flag redefined: " + f.Name)
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[sectionKey] = []string{heading}
	})
	flags.AddFlagSet(own)
}

// flagSection is some of a command's flags; no heading: those that no section holds.
type flagSection struct {
	heading string
	flags   []*pflag.Flag
}

// title returns what stands above the flags.
func (s *flagSection) title() string {
	if s.heading == "" {
		return "Flags"
	}
	return s.heading + " flags"
}

// sectionsOf returns the flags that are shown, by section: first those without one, then each section where
// its first flag stands.
func sectionsOf(flags *pflag.FlagSet) []flagSection {
	all := []flagSection{{}}
	place := map[string]int{"": 0}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		heading := strings.Join(f.Annotations[sectionKey], "")
		i, known := place[heading]
		if !known {
			i = len(all)
			place[heading] = i
			all = append(all, flagSection{heading: heading})
		}
		all[i].flags = append(all[i].flags, f)
	})
	if len(all[0].flags) == 0 {
		return all[1:]
	}
	return all
}

// The columns of the help.
const (
	usageWidth  = 100 // of lines, where nothing says how wide the display is
	usageColumn = 30  // where the meaning of a flag begins
	usageLeast  = 60  // of lines, however narrow the display
)

// usage writes what a command takes: it is the second half of its help.
type usage struct {
	w     io.Writer
	width int
}

// newUsage returns the function by which commands write their usage.
func newUsage(a app) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error {
		width := usageWidth
		if w := a.display().width; w > 0 {
			width = max(usageLeast, min(w, usageWidth+20))
		}
		var b strings.Builder
		(&usage{&b, width}).command(cmd)
		_, err := io.WriteString(cmd.OutOrStderr(), b.String())
		return err
	}
}

func (u *usage) linef(format string, args ...any) { fmt.Fprintf(u.w, format+"\n", args...) }

// command writes the usage of a command.
func (u *usage) command(cmd *cobra.Command) {
	u.linef("Usage:")
	if cmd.HasAvailableSubCommands() {
		u.linef("  %s [command]", cmd.CommandPath())
	} else {
		u.linef("  %s", cmd.UseLine())
	}
	if len(cmd.Aliases) > 0 {
		u.linef("\nAliases:\n  %s", cmd.NameAndAliases())
	}
	if cmd.Example != "" {
		u.linef("\nExamples:\n%s", cmd.Example)
	}
	for _, g := range cmd.Groups() {
		u.commands(g.Title, cmd, g.ID)
	}
	rest := "Commands"
	if len(cmd.Groups()) > 0 {
		rest = "Other commands"
	}
	u.commands(rest, cmd, "")
	for _, s := range sectionsOf(cmd.LocalFlags()) {
		u.linef("\n%s:", s.title())
		for _, f := range s.flags {
			u.flag(f)
		}
	}
	if cmd.HasAvailableSubCommands() {
		u.linef("\n\"%s [command] --help\" tells more of a command.", cmd.CommandPath())
	}
}

// commands writes the commands of one group.
func (u *usage) commands(title string, parent *cobra.Command, group string) {
	first := true
	for _, cmd := range parent.Commands() {
		if cmd.GroupID != group || !cmd.IsAvailableCommand() && cmd.Name() != "help" {
			continue
		}
		if first {
			u.linef("\n%s:", title)
		}
		first = false
		u.linef("  %-*s %s", parent.Commands()[0].NamePadding(), cmd.Name(), cmd.Short)
	}
}

// flag writes one flag: its meaning beside it, or below it if it is long.
func (u *usage) flag(f *pflag.Flag) {
	kind, meaning := pflag.UnquoteUsage(f)
	name := "      --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	switch {
	case f.NoOptDefVal == "true": // a switch
	case f.NoOptDefVal != "":
		name += "[=" + kind + "]"
		meaning += "; without a value " + f.NoOptDefVal
	case kind != "":
		name += " " + kind
	}
	if d := defaultOf(f); d != "" {
		meaning += " (default " + d + ")"
	}
	lines := wordLines(meaning, u.width-usageColumn)
	if len(name)+2 > usageColumn {
		u.linef("%s", name)
	} else {
		u.linef("%-*s%s", usageColumn, name, lines[0])
		lines = lines[1:]
	}
	for _, line := range lines {
		u.linef("%s%s", strings.Repeat(" ", usageColumn), line)
	}
}
