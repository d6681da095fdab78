package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// command is the whole program.
func command(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(errs)
	size := flags.String("size", "small", "how much work: tiny, small or full")
	binary := flags.String("carillon", "../../bin/carillon", "the carillon `binary`")
	only := flags.String("peer", "", "measure this `peer` only")
	lead := flags.Duration("lead", leadTime, "of steady: how long before its due time a job is put")
	goals := flags.Bool("dapr", false, "measure the goals P1, P3, P5, P7 and P8 over Dapr's protocol instead")
	asJSON := flags.Bool("json", false, "print the results as JSON")
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	s, ok := allSizes[*size]
	if !ok {
		return fmt.Errorf("there is no size %q", *size)
	}
	s.lead = *lead
	who, do := contestants(*binary), (*bout).run
	if *goals {
		who, do = daprContestants(*binary), (*bout).daprGoals
	}
	if who, err = pick(who, *only); err != nil {
		return err
	}
	took, rows, err := compete(ctx, who, s, do, errs)
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(out, rows)
	}
	return printTable(out, took, rows)
}

// compete measures one contestant after the other, so that each has the machine for itself, and returns who
// took part. What comes in is told to errs.
func compete(ctx context.Context, who []contestant, s sizes, do measures,
	errs io.Writer) (took []contestant, rows []row, err error) {
	for _, c := range who {
		err := measured(ctx, &c, s, do, func(r row) {
			rows = append(rows, r)
			fmt.Fprintln(errs, r.String())
		})
		switch {
		case isAbsent(err):
			fmt.Fprintf(errs, "%s, %s is left out: %s\n", c.peer, c.settings, err)
		case err != nil:
			return took, rows, fmt.Errorf("%s, %s: %w", c.peer, c.settings, err)
		default:
			took = append(took, c)
		}
	}
	return took, rows, nil
}

// measures is what is done with each contestant.
type measures func(*bout, context.Context) error

// measured does all measures of a contestant. Its version becomes part of what is said about it.
func measured(ctx context.Context, c *contestant, s sizes, do measures, report func(row)) error {
	subject, version, err := c.start(ctx)
	if err != nil {
		return err
	}
	c.about = version + "; " + c.about
	b := &bout{contestant: *c, subject: subject, sizes: s, version: version, report: report}
	return errors.Join(do(b, ctx), subject.close())
}
