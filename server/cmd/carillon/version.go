package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// newVersion returns the command `carillon version`.
func newVersion(a app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if structured(cmd) {
				return a.encode(cmd, b)
			}
			fmt.Fprintf(a.out, "carillon %s %s %s\n", b.Version, b.Go, b.Platform)
			return nil
		},
	}
	addOutput(cmd)
	return cmd
}

// build describes this build.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild reads what the compiler wrote into the binary.
func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
