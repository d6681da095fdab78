package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/manifest"
)

// jobEdit holds the flags of `carillon job edit`.
type jobEdit struct {
	connection
	a app
}

// newJobEdit returns the command `carillon job edit`.
func newJobEdit(a app) *cobra.Command {
	e := jobEdit{a: a}
	cmd := &cobra.Command{Use: "edit NAME", Short: "Change a job in an editor",
		Long: `Change a job in an editor, as YAML. The editor is the command in VISUAL or EDITOR, or vi. What is wrong with the text is said at
its top, and the editor opens again, until the text is right, as it was, or empty. Nothing is changed if somebody else has changed the job
meanwhile, if the editor fails or if the command is interrupted; the text is kept in a file then, whose name is printed.`,
		Args: arguments(1, 1), ValidArgsFunction: e.completeJobs}
	cmd.RunE = func(cmd *cobra.Command, words []string) error { return e.run(cmd, words[0]) }
	e.add(cmd)
	return cmd
}

func (e *jobEdit) run(cmd *cobra.Command, name string) error {
	var job carillon.Job
	err := e.call(cmd, func(ctx context.Context, node *client.Client) (err error) {
		job, err = node.GetJob(ctx, e.key(name))
		return err
	})
	if err != nil {
		return err
	}
	before, err := manifest.Job(&job)
	if err != nil {
		return err
	}
	return e.edit(cmd, &job, before)
}

const editHead = "# Change the job, save it and leave the editor. A text without changes, or an empty one, changes nothing.\n"

// edit opens the editor until there is something to put, and puts it.
func (e *jobEdit) edit(cmd *cobra.Command, job *carillon.Job, before []byte) error {
	body, fault, refused := before, "", []byte(nil)
	for {
		text, err := editText(cmd.Context(), e.a, editHead+commented(fault)+string(body))
		body = withoutHead(text)
		switch {
		case err == nil:
		case len(bytes.TrimSpace(body)) == 0, bytes.Equal(body, before):
			return err // there is nothing to keep
		default:
			return keptText(body, err)
		}
		switch {
		case len(bytes.TrimSpace(body)) == 0, bytes.Equal(body, before):
			e.a.sayf("Nothing was changed.")
			return nil
		case bytes.Equal(body, refused):
			return keptText(body, usagef("%s", fault))
		}
		next, err := edited(job, body)
		if err == nil {
			err = e.put(cmd, job, &next)
		}
		if cmd.Context().Err() != nil && err != nil {
			return keptText(body, err)
		}
		switch carillon.KindOf(err) {
		case carillon.FailedPrecondition, carillon.NotFound, carillon.Unavailable, carillon.DeadlineExceeded,
			carillon.PermissionDenied, carillon.Unauthenticated:
			return keptText(body, err)
		}
		if err == nil {
			return nil
		}
		fault, refused = err.Error(), body
	}
}

// edited reads what the editor has left.
func edited(job *carillon.Job, text []byte) (carillon.Job, error) {
	items, err := manifest.Read("the text", text)
	switch {
	case err != nil:
		return carillon.Job{}, err
	case len(items) != 1:
		return carillon.Job{}, usagef("there are %d jobs in it; leave one", len(items))
	}
	next := items[0].Job
	if next.Namespace == "" {
		next.Namespace = job.Namespace
	}
	if next.Key() != job.Key() {
		return next, usagef("name, namespace: a job cannot be renamed; put another one, and delete this")
	}
	if err := next.Validate(wideBounds); err != nil {
		return next, items[0].Fault(err)
	}
	keepData(&next.Data, &job.Data)
	return next, nil
}

// put shows what is changed, and puts it over the generation that was read.
func (e *jobEdit) put(cmd *cobra.Command, job, next *carillon.Job) error {
	d, err := jobDiff(job, next)
	if err != nil {
		return err
	}
	if d == "" {
		e.a.sayf("Nothing was changed.")
		return nil
	}
	return e.ask(e.a, func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
		put, err := node.PutJob(ctx, *next, carillon.IfGeneration(statusOf(job).Generation))
		if err != nil {
			return answer{}, err
		}
		got := e.a.putAnswer(&put)
		got.text = d + got.text
		return got, nil
	})(cmd, nil)
}

// commented returns a message as comments.
func commented(message string) string {
	var b strings.Builder
	if message != "" {
		b.WriteString("#\n# It was not changed:\n")
	}
	for line := range strings.Lines(visibleText(message)) {
		b.WriteString("# " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// withoutHead returns a text without the comments at its top.
func withoutHead(text []byte) []byte {
	for bytes.HasPrefix(text, []byte("#")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text
}

// keptText keeps a text in a file, and adds to an error where that is.
func keptText(text []byte, err error) error {
	path, failed := tempFile(text)
	if failed != nil {
		return errors.Join(err, failed)
	}
	where := fmt.Sprintf(" (your text is kept in %s)", path)
	if usage, ok := errors.AsType[*usageError](err); ok {
		return usagef("%s%s", usage.message, where)
	}
	if known, ok := errors.AsType[*carillon.Error](err); ok {
		kept := *known
		kept.Message += where
		return &kept
	}
	return fmt.Errorf("%w%s", err, where)
}

func tempFile(text []byte) (string, error) {
	f, err := os.CreateTemp("", "carillon-job-*.yaml") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return f.Name(), errors.Join(err, f.Close())
}

// editorEnds is how long an editor may take to end when the command is interrupted.
const editorEnds = 5 * time.Second

// editText lets the user edit a text. With an error it returns what is in the file then.
func editText(ctx context.Context, a app, text string) (out []byte, err error) {
	path, err := tempFile([]byte(text))
	if err != nil {
		return []byte(text), err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	words := strings.Fields(firstOf(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi"))
	editor := exec.CommandContext(ctx, words[0], append(words[1:], path)...) //nolint:gosec // the user names it
	editor.Stdin, editor.Stdout, editor.Stderr = a.in, a.raw, a.errs
	editor.Cancel = func() error { // so that it tidies the terminal
		return editor.Process.Signal(syscall.SIGTERM)
	}
	editor.WaitDelay = editorEnds
	ended := editor.Run()
	out, err = os.ReadFile(path)
	if err != nil {
		out = []byte(text)
	}
	switch _, code := errors.AsType[*exec.ExitError](ended); {
	case ctx.Err() != nil:
		return out, errors.New("interrupted; nothing was changed")
	case code:
		return out, fmt.Errorf("the editor %q ended with: %w; nothing was changed", clip(words[0], 80), ended)
	case ended != nil:
		return out, commandError(words[0], ended)
	}
	return out, err
}

// firstOf returns the first text that is not blank.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}
