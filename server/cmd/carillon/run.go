package main

import "github.com/spf13/cobra"

// newRun returns the command `carillon run`.
func newRun(a app) *cobra.Command {
	return newGroup("run", "Show and act on runs", newRunGet(a), newRunList(a), newRunRedrive(a), newRunCancel(a))
}
