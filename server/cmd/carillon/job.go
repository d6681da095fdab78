package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// newJob returns the command `carillon job`.
func newJob(a app) *cobra.Command {
	return newGroup("job", "Put, show and act on jobs",
		newJobPut(a), newJobGet(a), newJobList(a), newJobDelete(a), newJobPatch(a), newJobTrigger(a), newJobPause(a), newJobResume(a),
		newJobSkip(a), newJobBackfill(a), newJobRuns(a))
}

// printMessage prints a message of the API as its JSON.
func printMessage(w io.Writer, m proto.Message) error {
	var out bytes.Buffer
	if err := json.Indent(&out, httpapi.Marshal(m), "", "  "); err != nil {
		return err
	}
	_, err := out.WriteTo(w)
	return err
}
