package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/ingest"
)

// newIngest returns the command `carillon ingest`.
func newIngest(a app) *cobra.Command {
	return newGroup("ingest", "Commands that come by a message broker", newIngestList(a), newIngestSchema(a))
}

// newIngestSchema returns the command `carillon ingest schema`.
func newIngestSchema(a app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the messages that are commands",
		Long: `Print the JSON schema (2020-12) of the CloudEvents, in structured mode, that a node takes from the topics of message brokers
which the file of --brokers names under ingest.`,
		Example: `carillon ingest schema --out schema.json`,
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			text, err := eventSchema()
			if err != nil {
				return err
			}
			if out == "" {
				_, err := a.out.Write(text)
				return err
			}
			return os.WriteFile(out, text, 0o644) //nolint:gosec // it is for everyone to read
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write; default standard output")
	return cmd
}

// eventSchema is the text of docs/ingest.schema.json.
func eventSchema() ([]byte, error) {
	text, err := ingest.Schema()
	return append(text, '\n'), err
}
