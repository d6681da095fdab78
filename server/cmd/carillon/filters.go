package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
)

// choices is the value of a flag that accepts one of several words, and can be given several times.
type choices struct {
	words  []string
	chosen []int
}

func (c *choices) add(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	complete(cmd, name, c.words)
}

func (c *choices) String() string {
	var all []string
	for _, n := range c.chosen {
		all = append(all, c.words[n])
	}
	return strings.Join(all, ",")
}

// Set implements pflag.Value.
func (c *choices) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		n, err := choose(c.words, word)
		if err != nil {
			return err
		}
		c.chosen = append(c.chosen, n)
	}
	return nil
}

// Type returns what the help shows.
func (c *choices) Type() string { return strings.Join(c.words, "|") }

// runFilter holds the flags that select runs.
type runFilter struct {
	query       carillon.RunQuery
	status      choices
	kind        choice
	from, until string
}

// add adds the flags: those that say of which jobs as well, unless one is named.
func (f *runFilter) add(cmd *cobra.Command, jobs bool, statuses []string) {
	f.status.words, f.kind = statuses, choice{words: queueKindWords, chosen: -1}
	f.status.add(cmd, "status", "runs that stand there; may be given several times")
	if jobs {
		cmd.Flags().StringVar(&f.query.Job, "job", "", "runs of this `job`")
		cmd.Flags().StringVar(&f.query.Prefix, "prefix", "", "runs of jobs whose names begin with it")
	}
	cmd.Flags().StringVar(&f.query.Queue, "queue", "",
		"runs that wait in the queue of this `name` or went through it")
	f.kind.add(cmd, "kind", "runs of targets of this kind")
	cmd.Flags().StringVar(&f.query.Label, "label", "", "runs of jobs with the label: `key` or key=value")
	cmd.Flags().StringVar(&f.query.Error, "error", "", "`text` that the last error contains, as it is written")
	cmd.Flags().StringVar(&f.from, "from", "",
		"that ended, or if they have not are due, from this `time` on: RFC 3339, \"yesterday 18:00\", or a duration from now such as -12h or -2d")
	cmd.Flags().StringVar(&f.until, "until", "", "the same: before this `time`")
}

// filterFlags are those of which one at least says which runs or jobs are meant.
var filterFlags = []string{"status", "job", "prefix", "queue", "kind", "label", "error", "from", "until",
	"phase", "all"}

// filtered reports whether a flag says what is meant.
func filtered(cmd *cobra.Command) bool {
	return slices.ContainsFunc(filterFlags, func(name string) bool { return cmd.Flags().Changed(name) })
}

// resolve returns what the flags ask for, in a namespace; statuses are what the words of --status stand for.
func (f *runFilter) resolve(namespace string, statuses []carillon.RunStatus) (carillon.RunQuery, error) {
	q := f.query
	q.Namespace, q.Kind = namespace, f.kind.String()
	for _, n := range f.status.chosen {
		q.Statuses = append(q.Statuses, statuses[n])
	}
	now := time.Now()
	var err error
	if q.From, err = flagInstant("from", f.from, now); err == nil {
		q.Until, err = flagInstant("until", f.until, now)
	}
	return q, err
}

// flagInstant parses a flag that is a time, or a duration from now; "" is the zero time.
func flagInstant(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := parseInstant(text, now, now.Location()); err == nil {
		return t, nil
	}
	span, past := strings.CutPrefix(text, "-")
	d, err := parseSpan(strings.TrimPrefix(span, "+"))
	if err != nil {
		return time.Time{}, usagef("--%s: %q is neither a time such as 2027-01-31T08:00:00Z or \"yesterday 18:00\" nor a duration from now, -2d",
			flag, clip(text, 40))
	}
	if past {
		d = -d
	}
	return now.Add(d), nil
}

// jobFilter holds the flags that select jobs.
type jobFilter struct {
	prefix string
	labels []string
	phase  choice
}

func (f *jobFilter) add(cmd *cobra.Command) {
	f.phase = choice{words: phaseWords, chosen: -1}
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "jobs whose names begin with it")
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, "jobs with the label: `key` or key=value")
	f.phase.add(cmd, "phase", "jobs that stand there")
}

func (f *jobFilter) resolve(namespace string) carillon.JobQuery {
	q := carillon.JobQuery{Namespace: namespace, Prefix: f.prefix}
	if len(f.labels) > 0 {
		q.Label = f.labels[0]
	}
	if f.phase.chosen >= 0 {
		phase := carillon.Phase(f.phase.chosen)
		q.Phase = &phase
	}
	return q
}

// several lets --label be given several times: jobs with all of them are meant. A query has one, so the
// command looks for the others itself.
func (f *jobFilter) several(cmd *cobra.Command) {
	cmd.Flags().Lookup("label").Usage = "jobs with the label: `key` or key=value; repeatable: with all of them"
	check(cmd, func(*cobra.Command) error {
		for _, label := range f.labels {
			q := carillon.JobQuery{Label: label}
			if err := q.Validate(); err != nil || label == "" {
				return cmp.Or(err, usagef("--label: it is empty; leave it out"))
			}
		}
		return nil
	})
}

// selects reports whether a job that the query found has the other labels, too.
func (f *jobFilter) selects(j *carillon.Job) bool {
	for _, label := range f.labels[min(1, len(f.labels)):] {
		key, value, exact := strings.Cut(label, "=")
		if have, ok := j.Labels[key]; !ok || exact && have != value {
			return false
		}
	}
	return true
}

// oneLabel refuses several labels.
func (f *jobFilter) oneLabel(*cobra.Command) error {
	if len(f.labels) > 1 {
		return usagef("--label: this command takes one; `carillon job list` takes several")
	}
	return nil
}
