package main

import (
	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/etcdfolder"
)

// newReadFolder returns the command that carillon calls by itself to read a data folder of Dapr's scheduler:
// etcd's packages end the process when a folder is damaged, so it is one that does nothing else. The command
// is not for people, and not in docs/cli.md.
func newReadFolder(a app) *cobra.Command {
	return &cobra.Command{
		Use:    etcdfolder.ChildCommand,
		Short:  "Read a folder for the process that has started this one",
		Hidden: true,
		Args:   arguments(3, 3),
		RunE:   func(_ *cobra.Command, args []string) error { return etcdfolder.Child(a.in, a.raw, args) },
	}
}
