package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
)

// quotaFlags are the rate limits and quotas that `carillon namespace set` may be given.
type quotaFlags struct {
	limits, unlimit         []string
	jobs, bytes, concurrent int64
	puts, runs              string
}

func (q *quotaFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&q.limits, "rate-limit", nil,
		"`key=count[/period[/burst]]`: attempts of the jobs with this concurrency key begin at this rate; repeatable")
	flags.StringArrayVar(&q.unlimit, "no-rate-limit", nil,
		"concurrency `key` without a rate from now on; repeatable")
	flags.Int64Var(&q.jobs, "quota-jobs", 0, "most jobs that the namespace may have; 0 is no quota")
	flags.Int64Var(&q.bytes, "quota-payload-bytes", 0,
		"most bytes of data of its jobs together; 0 is no quota")
	flags.StringVar(&q.puts, "quota-puts", "",
		"`count[/period[/burst]]`: jobs are put, changed, deleted and triggered at this rate at most; 0 is no quota")
	flags.StringVar(&q.runs, "quota-runs", "",
		"`count[/period[/burst]]`: attempts of the namespace begin at this rate; 0 is no quota")
	flags.Int64Var(&q.concurrent, "quota-concurrent-runs", 0,
		"most attempts of the namespace in force at a time; 0 is no quota")
}

// change returns the change that the flags ask for; nil if they ask for none.
func (q *quotaFlags) change(cmd *cobra.Command) (func(*carillon.Namespace), error) {
	given := cmd.Flags().Changed
	if !slices.ContainsFunc([]string{"rate-limit", "no-rate-limit", "quota-jobs", "quota-payload-bytes",
		"quota-puts", "quota-runs", "quota-concurrent-runs"}, given) {
		return nil, nil //nolint:nilnil // no change, no error
	}
	var rates struct{ puts, runs carillon.Rate }
	for _, rate := range []struct {
		flag, text string
		to         *carillon.Rate
	}{{"quota-puts", q.puts, &rates.puts}, {"quota-runs", q.runs, &rates.runs}} {
		if !given(rate.flag) {
			continue
		}
		var err error
		if *rate.to, err = quotaRate("--"+rate.flag, rate.text); err != nil {
			return nil, err
		}
	}
	limits, err := q.rateLimits()
	if err != nil {
		return nil, err
	}
	return func(ns *carillon.Namespace) {
		if given("quota-jobs") {
			ns.Quotas.Jobs = q.jobs
		}
		if given("quota-payload-bytes") {
			ns.Quotas.PayloadBytes = q.bytes
		}
		if given("quota-puts") {
			ns.Quotas.Puts = rates.puts
		}
		if given("quota-runs") {
			ns.Quotas.Runs = rates.runs
		}
		if given("quota-concurrent-runs") {
			ns.Quotas.ConcurrentRuns = q.concurrent
		}
		if ns.RateLimits == nil {
			ns.RateLimits = make(map[string]carillon.Rate)
		}
		maps.Copy(ns.RateLimits, limits)
		for _, key := range q.unlimit {
			delete(ns.RateLimits, key)
		}
	}, nil
}

// rateLimits returns what --rate-limit sets.
func (q *quotaFlags) rateLimits() (map[string]carillon.Rate, error) {
	rates := make(map[string]carillon.Rate)
	for _, text := range q.limits {
		i := strings.LastIndexByte(text, '=') // a key may have one
		if i <= 0 {
			return nil, usagef("--rate-limit: %q is not key=count[/period[/burst]]", clip(text, 40))
		}
		rate, err := parseRate("--rate-limit", text[i+1:])
		if err != nil {
			return nil, err
		}
		rates[text[:i]] = rate
	}
	for _, key := range q.unlimit {
		if _, both := rates[key]; both {
			return nil, usagef("--rate-limit and --no-rate-limit cannot both be given for %q", clip(key, 40))
		}
	}
	return rates, nil
}

// quotaRate parses the rate of a quota; 0 is none. An empty text, as of a variable that is not set, must not
// lift a quota.
func quotaRate(flag, text string) (carillon.Rate, error) {
	switch text {
	case "":
		return carillon.Rate{}, usagef("%s: it is empty; say count[/period[/burst]], such as 100/1m/20, or 0 for no quota", flag)
	case "0":
		return carillon.Rate{}, nil
	}
	return parseRate(flag, text)
}

// parseRate parses count[/period[/burst]], such as 5, 5/1m or 5/1m/10.
func parseRate(flag, text string) (r carillon.Rate, err error) {
	parts := strings.Split(text, "/")
	if len(parts) > 3 {
		return r, usagef("%s: %q is not count[/period[/burst]], such as 100/1m/20", flag, clip(text, 40))
	}
	if r.Count, err = strconv.ParseInt(parts[0], 10, 64); err != nil {
		return r, usagef("%s: %s", flag, numberError(parts[0], err))
	}
	if len(parts) > 1 {
		if r.Period, err = time.ParseDuration(parts[1]); err != nil {
			return r, usagef("%s: %q is not a duration such as 1m", flag, clip(parts[1], 40))
		}
	}
	if len(parts) > 2 {
		if r.Burst, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
			return r, usagef("%s: %s", flag, numberError(parts[2], err))
		}
	}
	return r, nil
}

// quotaFields are the rate limits and quotas of a namespace, and what it has of them, for people.
func quotaFields(ns *carillon.Namespace) (fields []field) {
	for _, key := range slices.Sorted(maps.Keys(ns.RateLimits)) {
		fields = append(fields, field{"rate limit of " + key, ns.RateLimits[key].String()})
	}
	used := func(of int64) string {
		if ns.Used == nil {
			return ""
		}
		return ", used " + strconv.FormatInt(of, 10)
	}
	var usage carillon.Usage
	if ns.Used != nil {
		usage = *ns.Used
	}
	quotas := []struct {
		name  string
		given bool
		text  string
	}{
		{"jobs", ns.Quotas.Jobs != 0, strconv.FormatInt(ns.Quotas.Jobs, 10) + used(usage.Jobs)},
		{"payload bytes", ns.Quotas.PayloadBytes != 0,
			strconv.FormatInt(ns.Quotas.PayloadBytes, 10) + used(usage.PayloadBytes)},
		{"puts", ns.Quotas.Puts != carillon.Rate{}, ns.Quotas.Puts.String()},
		{"runs", ns.Quotas.Runs != carillon.Rate{}, ns.Quotas.Runs.String()},
		{"concurrent runs", ns.Quotas.ConcurrentRuns != 0, strconv.FormatInt(ns.Quotas.ConcurrentRuns, 10)},
	}
	for _, q := range quotas {
		if q.given {
			fields = append(fields, field{"quota of " + q.name, q.text})
		}
	}
	return fields
}
