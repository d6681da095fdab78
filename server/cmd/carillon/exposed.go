package main

import (
	"log/slog"
	"regexp"

	"github.com/spf13/pflag"
)

// withPassword is about the URL of a store or of a database with a password in it.
var withPassword = regexp.MustCompile(`://[^/?#@\s]*:[^/?#\s]+@|(?:^|[?&\s])(ssl)?password=[^&\s]`)

// exposed returns the flags that are given with a password. They come from the command line alone if that is
// asked before the environment and the file are read.
func exposed(flags *pflag.FlagSet) (names []string) {
	flags.Visit(func(f *pflag.Flag) {
		if withPassword.MatchString(f.Value.String()) {
			names = append(names, f.Name)
		}
	})
	return names
}

// warnOfExposed says which flags of the command line have a password: all users of the machine can read it.
func warnOfExposed(names []string, log *slog.Logger) {
	for _, name := range names {
		log.Warn("a password is on the command line, where others on this machine can read it: give it by the environment or a file",
			"flag", "--"+name, "variable", envName(name))
	}
}
