package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/manifest"
)

// keptFields is what the long help of apply and diff says of fields that a file leaves out.
const keptFields = `A file says all of a job: a field that it leaves out gets its default, but for paused and note, which stay as they
are, so that nothing is resumed that somebody has paused. Unknown fields are refused, and nothing is sent before all files
are read and checked.`

// apply holds the flags of `carillon apply`.
type apply struct {
	manifests
	dryRun bool
}

// newApply returns the command `carillon apply`.
func newApply(a app) *cobra.Command {
	var p apply
	cmd := &cobra.Command{Use: "apply -f FILE", Short: "Create and change jobs as files say",
		Long: "Create and change jobs as files say, and say of each which it was. What is as the file says already is left.\n" +
			keptFields + "\nA one-shot that has run is gone, and is created again.",
		Example: `carillon apply -f jobs.yaml
carillon apply -f jobs/ --namespace shop --dry-run
carillon export -n shop | carillon apply -n shop-copy -f -`,
		Args: arguments(0, 0)}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.run(cmd, a) }
	p.add(cmd)
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "say what would be done, and do nothing")
	return cmd
}

// applied is what became of a job, for -o json.
type applied struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Action    string `json:"action"`
	Error     string `json:"error,omitempty"`
}

// change is a job of a file beside that which there is.
type change struct {
	item *manifest.Item
	live *carillon.Job // nil: none
	job  carillon.Job  // as it is to be
}

// action says what is to be done.
func (c *change) action() string {
	switch {
	case c.live == nil:
		return "created"
	case proto.Equal(manifest.Spec(c.live), manifest.Spec(&c.job)):
		return "unchanged"
	}
	return "changed"
}

// changes compares the jobs of the files with those that there are.
func (m *manifests) changes(cmd *cobra.Command, a app) ([]change, error) {
	items, err := m.read(cmd, a.in)
	if err != nil {
		return nil, err
	}
	live, err := m.live(cmd, items)
	if err != nil {
		return nil, err
	}
	all := make([]change, len(items))
	for i := range items {
		all[i] = change{&items[i], live[i], merged(&items[i], live[i])}
	}
	return all, nil
}

// merged returns the job of a file with what stays of the one that there is.
func merged(item *manifest.Item, live *carillon.Job) carillon.Job {
	job := item.Job
	if live == nil {
		return job
	}
	if !item.Gives("paused") {
		job.Paused = live.Paused
	}
	if !item.Gives("note") {
		job.Note = live.Note
	}
	if live.Due == atOnce && job.Due.IsZero() && !job.Recurring() && !live.Recurring() {
		job.Due = atOnce // it says the same
	}
	keepData(&job.Data, &live.Data)
	return job
}

// atOnce is a due time that says what none says, of a one-shot.
var atOnce = carillon.In(0)

// keepData makes a payload the one that there is if it says the same.
func keepData(d, live *carillon.Data) {
	switch {
	case d.ContentType != live.ContentType || d.Ref != nil || len(d.Bytes) == 0:
	case live.Ref != nil:
		if live.Ref.Size == int64(len(d.Bytes)) && live.Ref.SHA256 == sha256.Sum256(d.Bytes) {
			*d = *live // the same bytes, which are kept apart
		}
	case d.ContentType == carillon.ContentTypeJSON && manifest.SameJSON(d.Bytes, live.Bytes):
		d.Bytes = live.Bytes // YAML does not keep white space
	}
}

func (p *apply) run(cmd *cobra.Command, a app) error {
	all, err := p.changes(cmd, a)
	if err != nil {
		return err
	}
	results := make([]applied, len(all))
	for i := range all {
		j := &all[i].job
		results[i] = applied{j.Namespace, j.Name, all[i].action(), ""}
	}
	if !p.dryRun {
		err = p.put(cmd, a, all, results)
	}
	return errors.Join(p.show(cmd, a, all, results), err)
}

// warn prints the warnings, each once, with the first job that it is about.
func (p *apply) warn(a app, all []change, warnings [][]string) {
	var texts []string
	about := make(map[string][]int)
	for i, some := range warnings {
		for _, w := range some {
			if about[w] == nil {
				texts = append(texts, w)
			}
			about[w] = append(about[w], i)
		}
	}
	for _, w := range texts {
		jobs := about[w]
		name := p.shownName(&all[jobs[0]].job)
		if len(jobs) > 1 {
			name += fmt.Sprintf(" and %d more", len(jobs)-1)
		}
		a.sayf("warning: %s: %s", name, w)
	}
}

// errorText is an error on one line.
func errorText(err error) string { return oneLine.Replace(err.Error()) }

func (p *apply) show(cmd *cobra.Command, a app, all []change, results []applied) error {
	var text strings.Builder
	var names []string
	for i, r := range results {
		name := p.shownName(&all[i].job)
		names = append(names, name)
		text.WriteString(name + " " + r.Action)
		if p.dryRun {
			text.WriteString(" (dry run)")
		}
		if r.Error != "" {
			text.WriteString(": " + r.Error)
		}
		text.WriteByte('\n')
	}
	return a.answer(cmd, answer{value: map[string]any{"jobs": results}, text: text.String(), names: names})
}

// errDiffers is the error of a diff that found something.
var errDiffers = errors.New("the files and the jobs differ")

// newDiff returns the command `carillon diff`.
func newDiff(a app) *cobra.Command {
	var m manifests
	cmd := &cobra.Command{Use: "diff -f FILE", Short: "Show what apply would change",
		Long: "Show what apply would change, as a unified diff of YAML. The exit code is 0 if there is nothing, and 5 if there is.\n" +
			keptFields,
		Args: arguments(0, 0)}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := m.changes(cmd, a)
		if err != nil {
			return err
		}
		return showDiff(cmd, a, all)
	}
	m.add(cmd)
	return cmd
}

// difference is a change for -o json.
type difference struct {
	applied
	Diff string `json:"diff"`
}

func showDiff(cmd *cobra.Command, a app, all []change) error {
	differences := []difference{}
	var text strings.Builder
	for i := range all {
		c := &all[i]
		action := c.action()
		if action == "unchanged" {
			continue
		}
		d, err := jobDiff(c.live, &c.job)
		if err != nil {
			return err
		}
		differences = append(differences, difference{applied{c.job.Namespace, c.job.Name, action, ""}, d})
		text.WriteString(d)
	}
	got := answer{value: map[string]any{"differences": differences}, text: text.String()}
	if d := a.display(); d.colour && !structured(cmd) {
		if _, err := a.raw.Write([]byte(colouredDiff(visibleText(got.text)))); err != nil {
			return err
		}
	} else if err := a.answer(cmd, got); err != nil {
		return err
	}
	if len(differences) > 0 {
		return errDiffers
	}
	return nil
}

// jobDiff returns a unified diff of two jobs, of which one may be nil.
func jobDiff(before, after *carillon.Job) (string, error) {
	var texts [2][]byte
	name := ""
	for i, j := range []*carillon.Job{before, after} {
		if j == nil {
			continue
		}
		name = j.Key().String()
		var err error
		if texts[i], err = manifest.Job(j); err != nil {
			return "", err
		}
	}
	d := diff.Diff("there/"+name, texts[0], "file/"+name, texts[1])
	_, d, _ = bytes.Cut(d, []byte("\n")) // the line of a command diff
	return string(d), nil
}

func colouredDiff(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		colour := plain
		switch line[0] {
		case '+':
			colour = green
		case '-':
			colour = red
		case '@':
			colour = blue
		}
		if colour == plain {
			b.WriteString(line)
			continue
		}
		b.WriteString("\x1b[" + string(colour) + "m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n")
	}
	return b.String()
}
