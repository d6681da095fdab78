package main

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envPrefix begins the name of every variable that Carillon reads or sets.
const envPrefix = "CARILLON_"

// envName returns the environment variable of a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// serviceVariable matches variables that Kubernetes and Docker set for a service whose name begins with
// carillon: they look like settings and are none.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// checkEnvironment refuses variables that look like settings of Carillon and are none: most likely a name is
// misspelt, and the setting would be missing unnoticed.
func checkEnvironment(cmd *cobra.Command) error {
	known := knownVariables(cmd.Root())
	var faults []string
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case !strings.HasPrefix(name, envPrefix), value == "", slices.Contains(known, name),
			serviceVariable.MatchString(name), strings.HasPrefix(name, envPrefix+"TEST_"): // for Carillon's own tests
			continue
		}
		faults = append(faults,
			"environment "+name+": there is no such setting"+hint("; did you mean %s?", name, known))
	}
	return joinFaults(faults)
}

// knownVariables returns the variables of a node's settings, of commands that talk to a node, and of a run,
// which `carillon work` sets for the program that it starts.
func knownVariables(root *cobra.Command) []string {
	known := slices.Clone(runVariables)
	for _, flag := range []string{"server", "namespace", "context", caFlag, certFlag, keyFlag, serverNameFlag,
		tokenFlag, tokenFileFlag, etcdUsername, etcdPassword} {
		known = append(known, envName(flag))
	}
	add := func(f *pflag.Flag) {
		if f.Name != "help" {
			known = append(known, envName(f.Name))
		}
	}
	if cmd, _, err := root.Find([]string{"serve"}); err == nil && cmd != root { // otherwise a tree of a test
		cmd.Flags().VisitAll(add)
	}
	daprSettings().VisitAll(add)
	return known
}
