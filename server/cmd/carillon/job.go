package main

import (
	"github.com/spf13/cobra"
)

// newJob returns the command `carillon job`.
func newJob(a app) *cobra.Command {
	return newGroup("job", "Put, show and act on jobs",
		newJobPut(a), newJobGet(a), newJobList(a), newJobDelete(a), newJobPatch(a), newJobTrigger(a), newJobPause(a), newJobResume(a),
		newJobSkip(a), newJobBackfill(a), newJobRuns(a))
}
