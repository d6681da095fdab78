package main

import (
	"context"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/telemetry"
	"github.com/carillonhq/carillon/worker"
)

// work holds the flags of `carillon work`.
type work struct {
	connection
	options   worker.Options
	killAfter time.Duration
}

// newWork returns the command `carillon work`.
func newWork(a app) *cobra.Command {
	var w work
	cmd := &cobra.Command{
		Use:   "work QUEUE -- COMMAND [ARG]...",
		Short: "Run a command for each run of a queue",
		Long: `Connect as a worker and run a command for each run of a queue. The payload is on its standard input; CARILLON_NAMESPACE,
_JOB, _RUN_ID, _QUEUE, _ATTEMPT, _CAUSE, _SCHEDULED_TIME, _DUE_TIME, _DEADLINE, _CONTENT_TYPE and _METADATA (JSON) are in
its environment, and so are TRACEPARENT and TRACESTATE if the run belongs to a trace. Exit code 0 is success. Anything else is
a failure, whose message is the end of what it wrote to standard error, and the job's failure policy says what comes next. The last
64 KiB of what it wrote to both is kept with the run.

When an attempt times out or is cancelled, the command and everything it has started get SIGTERM, and SIGKILL if that does
not end them. On SIGTERM or Ctrl-C the worker takes no new runs and waits for those that are running, for up to --grace; then
their commands are stopped in the same way, which takes up to --kill-after and a second. What supervises it should give it
that long.`,
		Example: `carillon work reports -- ./make-report.sh
carillon work mail --concurrency 4 -- sh -c 'jq -r .to | xargs ./send'`,
		Args: func(cmd *cobra.Command, words []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(words) < 2 {
				return usagef("give a queue, --, and a command\nUsage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error { return w.run(cmd, a, words[0], words[1:]) },
	}
	flags := cmd.Flags()
	w.reach.add(flags, "gRPC `address` of a node; environment CARILLON_SERVER")
	flags.StringVarP(&w.namespace, "namespace", "n", carillon.DefaultNamespace,
		"`namespace` of the queue; environment CARILLON_NAMESPACE")
	flags.IntVar(&w.options.Concurrency, "concurrency", 1, "most commands at once")
	flags.DurationVar(&w.options.Grace, "grace", worker.DefaultGrace,
		"how long commands may go on when the worker leaves")
	flags.DurationVar(&w.killAfter, "kill-after", 10*time.Second, "from SIGTERM to SIGKILL")
	flags.StringVar(&w.options.ID, "id", "",
		"`name` of the worker, for people; default the machine's and a few letters")
	return cmd
}

func (w *work) run(cmd *cobra.Command, a app, queue string, command []string) error {
	w.resolve(cmd)
	if _, err := exec.LookPath(command[0]); err != nil { // otherwise each run would use up its attempts
		return commandError(command[0], err)
	}
	node, err := w.dial()
	if err != nil {
		return err
	}
	defer node.Close()
	w.options.Namespace = w.namespace
	w.options.Log = telemetry.NewLogger(a.errs, false, slog.LevelInfo)
	p := &program{args: command, out: a.raw, errs: a.errs, killAfter: w.killAfter}
	return w.worker(node, queue, p).Run(cmd.Context())
}

// worker returns a worker that runs the program for each run of the queue. It stays until the commands have
// been killed: their runs are for others only then.
func (w *work) worker(node carillon.Work, queue string, p *program) *worker.Worker {
	w.options.ReturnTime = p.killAfter + time.Second
	worked := worker.New(node, w.options)
	worker.HandleResult(worked, queue,
		func(ctx context.Context, run carillon.Run, payload io.Reader) ([]byte, error) {
			return p.Run(ctx, &run, payload)
		})
	return worked
}
