package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
)

// quotaFlags are the quotas that `carillon namespace set` may be given.
type quotaFlags struct {
	jobs, bytes, burst int64
	puts               string
}

func (q *quotaFlags) add(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&q.jobs, "quota-jobs", 0, "most jobs that the namespace may have; 0 is no quota")
	cmd.Flags().Int64Var(&q.bytes, "quota-payload-bytes", 0,
		"most bytes of data of its jobs together; 0 is no quota")
	cmd.Flags().StringVar(&q.puts, "quota-puts", "",
		"`n/period`: how often jobs may be put, changed, deleted and triggered, such as 100/1s; 0 is no quota")
	cmd.Flags().Int64Var(&q.burst, "quota-puts-burst", 0,
		"with --quota-puts, how many of them at once after a pause; 0 is the default, n")
}

// change returns the change of quotas that the flags ask for; nil: none.
func (q *quotaFlags) change(cmd *cobra.Command) (func(*carillon.Quotas), error) {
	given := cmd.Flags().Changed
	if given("quota-puts-burst") && !given("quota-puts") {
		return nil, usagef("--quota-puts-burst needs --quota-puts")
	}
	rate, err := q.rate()
	if err != nil {
		return nil, err
	}
	if !given("quota-jobs") && !given("quota-payload-bytes") && !given("quota-puts") {
		return nil, nil //nolint:nilnil // no change, no error
	}
	return func(to *carillon.Quotas) {
		if given("quota-jobs") {
			to.Jobs = q.jobs
		}
		if given("quota-payload-bytes") {
			to.PayloadBytes = q.bytes
		}
		if given("quota-puts") {
			to.Puts = rate
		}
	}, nil
}

// rate returns what --quota-puts says.
func (q *quotaFlags) rate() (r carillon.Rate, err error) {
	if q.puts == "" || q.puts == "0" {
		return r, nil
	}
	count, period, found := strings.Cut(q.puts, "/")
	if r.Count, err = strconv.ParseInt(count, 10, 64); err != nil || !found {
		return r, usagef("--quota-puts: %q is not n/period, such as 100/1s", clip(q.puts, 40))
	}
	if r.Period, err = time.ParseDuration(period); err != nil {
		return r, usagef("--quota-puts: %q is not a duration, such as 1s", clip(period, 40))
	}
	r.Burst = q.burst
	return r, nil
}

// quotaFields describe the quotas of a namespace, and what it has of them.
func quotaFields(ns *carillon.Namespace) (fields []field) {
	amount := func(name string, most int64, used func(u *carillon.Usage) int64) {
		switch text := strconv.FormatInt(most, 10); {
		case most == 0:
		case ns.Used == nil:
			fields = append(fields, field{"quota of " + name, text})
		default:
			fields = append(fields, field{"quota of " + name, text + ", used " + strconv.FormatInt(used(ns.Used), 10)})
		}
	}
	amount("jobs", ns.Quotas.Jobs, func(u *carillon.Usage) int64 { return u.Jobs })
	amount("payload bytes", ns.Quotas.PayloadBytes, func(u *carillon.Usage) int64 { return u.PayloadBytes })
	if r := ns.Quotas.Puts.WithDefaults(); r.Count != 0 {
		fields = append(fields, field{"quota of puts", strconv.FormatInt(r.Count, 10) + " in " + r.Period.String() +
			", " + strconv.FormatInt(r.Burst, 10) + " at once"})
	}
	return fields
}
