package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newRunGet returns the command `carillon run get`.
func newRunGet(a app) *cobra.Command {
	var c connection
	var r repeated
	cmd := c.inNamespace(a, "get ID", "Show a run", nil)
	cmd.Long = idHelp
	r.one(cmd, a, &c,
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			id, err := wholeID(ctx, node, c.namespace, words[0])
			if err != nil {
				return answer{}, err
			}
			run, err := node.GetRun(ctx, c.namespace, id)
			return answer{message: wire.RunToProto(&run), text: runDescription(&run), names: []string{run.ID}}, err
		})
	cmd.ValidArgsFunction = c.first(c.runIDs)
	return cmd
}

// runDescription describes a run for people.
func runDescription(r *carillon.Run) string {
	now := time.Now()
	fields := []field{
		{"id", r.ID},
		{"short id", shortID(r.ID)},
		{"job", r.Job},
		{"cause", r.Cause.String()},
		{"status", r.Status.String()},
		{"reason", r.Reason},
		{"hold", holdText(r.Hold)},
		{"scheduled", localAndAgo(r.Scheduled, now)},
		{"due", localAndAgo(r.Due, now)},
		{"attempt", strconv.Itoa(r.Attempt)},
		{"started", localAndAgo(r.Started, now)},
		{"finished", localAndAgo(r.Finished, now)},
		{"took", runTook(r, now)},
		{"queue", r.Queue},
		{"progress", progressText(r.Progress)},
		{"backfill", r.Backfill},
		{"worker", r.Worker},
		{"data", dataText(r.Data)},
	}
	for _, e := range r.Errors {
		name := fmt.Sprintf("attempt %d failed", e.Attempt)
		if e.Redriven {
			name += ", before a redrive"
		}
		fields = append(fields, field{name, localTime(e.At) + " " + clip(e.Message, 200)})
	}
	return description(fields) + keptResult(r.Response)
}

// keptResult describes the result of a run: below everything else, as it is, if it is text.
func keptResult(result []byte) string {
	switch text := string(result); {
	case text == "":
		return ""
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fmt.Sprintf("result: %d bytes that are no text; -o json shows them in base64\n", len(result))
	default:
		return "result:\n" + strings.TrimSuffix(text, "\n") + "\n"
	}
}

// progressText describes an attempt's last reported progress, on one line.
func progressText(p *carillon.Progress) string {
	if p == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %%, %s %s", p.Percent, localTime(p.At), clip(p.Message, 120)))
}
