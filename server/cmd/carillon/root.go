package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/internal/tracecontext"
)

// app holds what every command needs: its input, where results go, and where everything else goes.
type app struct {
	in   io.Reader
	out  io.Writer // characters that a terminal would act upon are made visible
	raw  io.Writer // the same, for bytes that are passed on unchanged
	errs io.Writer
	on   *display // what results are shown on; nil: what out is
}

// newApp returns the app for the three standard files of a process.
func newApp(in io.Reader, out, errs io.Writer) app {
	return app{in: in, out: &visible{w: out}, raw: out, errs: errs}
}

// sayf prints a line that is not part of the result.
func (a app) sayf(format string, args ...any) {
	fmt.Fprintf(&visible{w: a.errs}, format+"\n", args...)
}

// execute runs one command line and returns its exit code. The first signal ends the command in order, a
// second one at once.
func execute(args []string, a app) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := newRoot(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(tracecontext.FromEnvironment(ctx))
	return a.report(cmd, args, err)
}

// newRoot returns the tree of commands.
func newRoot(a app) *cobra.Command {
	root := &cobra.Command{
		Use:   "carillon",
		Short: "A distributed job scheduler",
		Long: `Carillon keeps jobs durably, fires each at its time, delivers the run to whoever must do it, and keeps at it until
the run has succeeded or its failure policy says stop.

Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 not found; 4 and 5 are of single commands. That of wrong usage of dapr-scheduler
is 1, as Dapr's is.`,
		Example: `carillon dev                                  # a node with sample jobs
carillon job put hello --in 5s --worker q     # a job, and
carillon work q -- echo hello                 # a worker that runs it
carillon job list
carillon job describe reports/nightly         # when it runs, and why it does not
carillon run list --status dead               # runs that nothing repeats any more, until
carillon run redrive --job reports/nightly    # they get new attempts
carillon queue list                           # what waits for whom
carillon schedule preview "0 9 * * MON-FRI" --time-zone Europe/Berlin`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.ArbitraryArgs,
		RunE:              group,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return checkEnvironment(cmd) },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetUsageFunc(newUsage(a))
	addGroup(root, "jobs", "Jobs and runs", newJob(a), newRun(a), newSchedule(a), newBackfill(a),
		newCalendar(a), newPayload(a), newWork(a))
	addGroup(root, "see", "See what happens", newTop(a), newWatch(a), newQueue(a), newWorker(a))
	addGroup(root, "files", "Jobs in files", newApply(a), newDiff(a), newDelete(a), newExport(a),
		newImport(a))
	addGroup(root, "nodes", "Nodes", newDev(a), newServe(a), newCluster(a), newContext(a),
		newDaprScheduler(a), newDapr(a))
	addGroup(root, "tenants", "Tenants and security", newNamespace(a), newWebhook(a), newKey(a),
		newEncryptionKey(a), newAudit(a))
	addGroup(root, "stores", "Stores", newStore(a), newBackup(a), newRestore(a), newMigrate(a), newDoctor(a))
	addGroup(root, "feeds", "Jobs from elsewhere", newOutbox(a), newIngest(a))
	root.AddCommand(newBench(a), newVersion(a), newDocs(a), newReadFolder(a))
	root.InitDefaultCompletionCmd("completion") // so that it is in the docs
	root.InitDefaultHelpCmd()
	strictCobra(root)
	return root
}

// addGroup adds commands that the help shows together.
func addGroup(root *cobra.Command, id, title string, cmds ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, cmd := range cmds {
		cmd.GroupID = id
	}
	root.AddCommand(cmds...)
}

// strictCobra makes cobra's own commands refuse unknown arguments, like the others.
func strictCobra(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, group
			for _, shell := range cmd.Commands() {
				shell.Args = arguments(0, 0)
			}
		case "help":
			cmd.Args = knownTopic
		}
	}
}

// knownTopic refuses help for a command that does not exist.
func knownTopic(cmd *cobra.Command, words []string) error {
	topic, rest, err := cmd.Root().Find(words)
	switch {
	case err != nil:
		return usagef("%s", err)
	case len(rest) == 0:
		return nil
	case topic.HasSubCommands():
		return group(topic, rest)
	}
	return arguments(0, 0)(topic, rest)
}

// group runs a command that only holds others: it shows its help, and refuses an unknown word.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usagef("unknown command %q for %q%s", clip(args[0], 40), cmd.CommandPath(),
		hint("\nDid you mean \""+cmd.CommandPath()+" %s\"?", args[0], names))
}

// newGroup returns a command that only holds others.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: group}
	cmd.AddCommand(commands...)
	return cmd
}

// newJob returns the command `carillon job`.
func newJob(a app) *cobra.Command {
	return newGroup("job", "Put, show and act on jobs",
		newJobPut(a), newJobGet(a), newJobList(a), newJobDelete(a), newJobPatch(a), newJobTrigger(a),
		newJobPause(a), newJobResume(a), newJobSkip(a), newJobBackfill(a), newJobRuns(a),
		newJobDescribe(a), newJobWait(a), newJobEdit(a))
}

// newRun returns the command `carillon run`.
func newRun(a app) *cobra.Command {
	return newGroup("run", "Show and act on runs", newRunGet(a), newRunList(a),
		newRunRedrive(a), newRunCancel(a), newRunWait(a))
}
