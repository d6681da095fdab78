package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// watch holds the flags of `carillon watch`.
type watch struct {
	connection
	query carillon.WatchQuery
	types []string
	count int
}

// newWatch returns the command `carillon watch`.
func newWatch(a app) *cobra.Command {
	var w watch
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show what happens to jobs, runs, queues and nodes, as it happens",
		Long: `Show what happens to jobs, runs, queues and nodes from now on, as soon as it is durable, until it is interrupted. It goes on over lost
connections and at other nodes, and misses nothing; when it ends it says with which --from to go on later, for which there are
ten minutes. With -o json each line is what happened at once, with the position after it; if nothing has happened since, a last
line has the position alone.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return w.run(cmd, a) },
	}
	f := cmd.Flags()
	f.StringVarP(&w.query.Namespace, "namespace", "n", "", "jobs and queues of this `namespace`; default: of all namespaces, and nodes")
	w.completeNamespace(cmd)
	f.StringVar(&w.query.Prefix, "prefix", "", "jobs whose names begin with this `prefix`; needs --namespace")
	f.StringSliceVar(&w.types, "type", nil, "`types` of events such as run.dead, or groups of them such as run; default: all")
	f.StringVar(&w.query.Position, "from", "", "`position` at which an earlier watch ended; default: from now on")
	f.IntVar(&w.count, "count", 0, "end after so many events; default: never")
	complete(cmd, "type", eventWords())
	w.addReach(cmd)
	check(cmd, func(*cobra.Command) error {
		if w.count < 0 {
			return usagef("--count: %d is less than 0", w.count)
		}
		return nil
	})
	return cmd
}

// eventWords are the types of events.
func eventWords() (words []string) {
	for _, t := range carillon.EventTypes() {
		words = append(words, string(t))
	}
	return words
}

// errEnough ends a watch that has shown what it was asked for.
var errEnough = errors.New("enough")

func (w *watch) run(cmd *cobra.Command, a app) error {
	w.reach.resolve(cmd.Flags())
	for _, t := range w.types {
		w.query.Types = append(w.query.Types, carillon.EventType(t))
	}
	node, err := w.dial()
	if err != nil {
		return err
	}
	defer node.Close()
	shown, last, idle := 0, "", false
	err = node.Watch(cmd.Context(), w.query, func(b carillon.EventBatch) error {
		last, idle = b.Position, len(b.Events) == 0
		if shown += len(b.Events); idle {
			return nil
		}
		if err := w.show(cmd, a, &b); err != nil {
			return err
		}
		if w.count > 0 && shown >= w.count {
			return errEnough
		}
		return nil
	})
	switch {
	case last == "":
	case !structured(cmd):
		a.sayf("To go on from here: --from %s", last)
	case idle: // the position after the last line is an earlier one, which does not hold for so long
		if failed := w.show(cmd, a, &carillon.EventBatch{Position: last}); failed != nil {
			return failed
		}
	}
	if errors.Is(err, errEnough) || errors.Is(cmd.Context().Err(), context.Canceled) {
		return nil
	}
	return w.explain(err)
}

// show prints a batch.
func (w *watch) show(cmd *cobra.Command, a app, b *carillon.EventBatch) error {
	raw := httpapi.Marshal(wire.EventBatchToProto(b))
	switch f := formatOf(cmd); {
	case f.word == "json": // each on a line
		return a.print(string(raw))
	case f.word == "yaml":
		return errors.Join(a.print("---\n"), f.write(a.out, raw))
	case f.structured():
		return f.write(a.out, raw)
	}
	var out strings.Builder
	for i := range b.Events {
		out.WriteString(oneLine.Replace(eventLine(&b.Events[i])))
		out.WriteByte('\n')
	}
	return a.print(out.String())
}

// eventLine is an event on one line.
func eventLine(e *carillon.Event) string {
	about := e.Namespace + "/" + e.Job
	switch {
	case e.Node != "":
		about = e.Node
	case e.Queue != "":
		about = e.Namespace + "/" + e.QueueKind + "/" + e.Queue
	}
	words := []string{e.Time.Format(time.RFC3339Nano), string(e.Type), about}
	add := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+value)
		}
	}
	add("run", e.Run)
	if e.Attempt > 0 {
		add("attempt", strconv.Itoa(e.Attempt))
	}
	if e.Skipped > 0 {
		add("times", strconv.FormatUint(e.Skipped, 10))
	}
	if e.Late > 0 {
		add("late", e.Late.Round(time.Millisecond).String())
	}
	add("from", moment(e.From))
	add("retry", moment(e.RetryAt))
	add("reason", e.Reason)
	if e.Error != "" {
		add("error", strconv.Quote(clip(e.Error, 200)))
	}
	return strings.Join(words, " ")
}
