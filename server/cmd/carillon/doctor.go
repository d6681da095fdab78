package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/store"
)

// examination is what the flags of `carillon doctor` say.
type examination struct {
	url  string
	mend bool
	most int
	keys server.Encryption
}

// newDoctor returns the command `carillon doctor`.
func newDoctor(a app) *cobra.Command {
	var x examination
	cmd := &cobra.Command{
		Use:   "doctor --store URL",
		Short: "Examine what a store holds, and mend what can be mended",
		Long: `Examine what a store of any kind holds: that records can be read and agree with each other, and that indexes and
records agree, both ways. Each finding has a word that docs/operations.md explains. Damaged files of a folder are named
by carillon store check.

Nothing is changed without --mend, and nothing is claimed: the nodes of the store must be stopped, and the command fails
if one begins meanwhile. With --mend it claims all partitions, so that none can begin, and mends what follows from
what is there. It removes no job and no run. It may be stopped at any time and run again.

Exit codes: 0 nothing is wrong, or everything was mended; 1 something is left; 2 wrong usage; 4 the store could not be
examined to its end.`,
		Example: `carillon doctor --store pebble:/var/lib/carillon
carillon doctor --store postgres://localhost/carillon --mend`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return x.run(cmd, a) },
	}
	cmd.Flags().StringVar(&x.url, "store", "", "`url` of the store, as of serve (required)")
	cmd.Flags().BoolVar(&x.mend, "mend", false, "mend what can be mended")
	cmd.Flags().IntVar(&x.most, "most", 20, "most findings of each kind to show; the others are counted")
	addKeys(cmd.Flags(), &x.keys,
		"`file` of keys that the store is encrypted with, as of serve; default: what is encrypted is not looked into")
	addOutput(cmd)
	return cmd
}

// errFindings is the command's error if something is left that is wrong.
var errFindings = errors.New("something is wrong with the store")

// unexamined is an error after which it is not known what is wrong with a store.
type unexamined struct{ error }

func (u unexamined) Unwrap() error { return u.error }

func (x *examination) run(cmd *cobra.Command, a app) error {
	if err := lasting("store", x.url); err != nil {
		return err
	}
	if x.most < 0 {
		return usagef("--most is %d: it must be 0 or more", x.most)
	}
	p := newProgress(a.errs)
	defer p.clear()
	report, err := x.examine(cmd.Context(), p)
	if err != nil {
		if errors.Is(err, store.ErrOutdated) {
			err = fmt.Errorf("%w: --mend does that, and so does the start of a node; there is no way back but a copy", err)
		}
		return unexamined{err}
	}
	p.clear()
	if structured(cmd) {
		err = a.encode(cmd, report)
	} else {
		err = a.print(examined(report))
	}
	if err == nil && report.Left() > 0 {
		err = errFindings
	}
	return err
}

func (x *examination) examine(ctx context.Context, p *progress) (*doctor.Report, error) {
	box, err := boxOf(&x.keys)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, x.url, store.Options{Existing: true, AsIs: !x.mend})
	if err != nil {
		return nil, err
	}
	o := doctor.Options{Most: x.most, Progress: func(r *doctor.Report) {
		p.show(fmt.Sprintf("examined: %d jobs, %d pending runs, %d finished runs", r.Jobs, r.PendingRuns, r.Runs), 0, 0)
	}}
	if box != nil {
		o.Keys = box.Keeping()
	}
	look := doctor.Look
	if x.mend {
		look = doctor.Mend
	}
	report, err := look(ctx, s, o)
	return report, errors.Join(err, s.Close())
}

// examined describes a report for people.
func examined(r *doctor.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d partitions were examined, with %d jobs, %d pending runs, %d finished runs and %d other records.\n",
		r.Partitions, r.Jobs, r.PendingRuns, r.Runs, r.Meta)
	if r.Sealed > 0 {
		fmt.Fprintf(&b, "%d jobs and pending runs are encrypted, and were not looked into: give --encryption-keys.\n", r.Sealed)
	}
	if len(r.Kinds) == 0 {
		return b.String() + "Nothing is wrong.\n"
	}
	type count struct {
		kind doctor.Kind
		doctor.Tally
	}
	var counts []count
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		counts = append(counts, count{kind, r.Kinds[kind]})
	}
	b.WriteString(table([]string{"KIND", "FOUND", "MENDED"}, counts, func(c *count) []string {
		return []string{string(c.kind), strconv.FormatInt(c.Found, 10), strconv.FormatInt(c.Mended, 10)}
	}))
	if len(r.Findings) == 0 {
		return b.String()
	}
	heading := []string{"KIND", "PARTITION", "NAMESPACE", "NAME", "RUN", "MENDED", "WHAT"}
	return b.String() + "\n" + table(heading, r.Findings, func(f *doctor.Finding) []string {
		run := f.Run
		if run == "" && f.Pending != 0 {
			run = fmt.Sprint("pending ", f.Pending)
		}
		return []string{string(f.Kind), strconv.Itoa(f.Partition), dash(f.Namespace), dash(f.Name), dash(run),
			strconv.FormatBool(f.Mended), f.What}
	})
}
