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

// rateFlags holds the flags of `carillon namespace set` that are about rates and quotas.
type rateFlags struct {
	limits     []string
	unlimit    []string
	runs       string
	concurrent int64
}

func (r *rateFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&r.limits, "rate-limit", nil,
		"`key=count[/period[/burst]]`: attempts of the jobs with this concurrency key begin at this rate; repeatable")
	cmd.Flags().StringArrayVar(&r.unlimit, "no-rate-limit", nil,
		"concurrency `key` without a rate from now on; repeatable")
	cmd.Flags().StringVar(&r.runs, "quota-runs", "",
		"`count[/period[/burst]]`: attempts of the namespace begin at this rate; 0 is no quota")
	cmd.Flags().Int64Var(&r.concurrent, "quota-concurrent-runs", 0,
		"most attempts of the namespace in force at a time; 0 is no quota")
}

// change returns the change that the flags ask for; nil if they ask for none.
func (r *rateFlags) change(cmd *cobra.Command) (func(*carillon.Namespace), error) {
	runs, concurrent := cmd.Flags().Changed("quota-runs"), cmd.Flags().Changed("quota-concurrent-runs")
	if !runs && !concurrent && len(r.limits)+len(r.unlimit) == 0 {
		return nil, nil
	}
	var quota carillon.Rate
	if runs && r.runs != "0" {
		var err error
		if quota, err = parseRate("--quota-runs", r.runs); err != nil {
			return nil, err
		}
	}
	rates := make(map[string]carillon.Rate)
	for _, text := range r.limits {
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
	for _, key := range r.unlimit {
		if _, both := rates[key]; both {
			return nil, usagef("--rate-limit and --no-rate-limit cannot both be given for %q", clip(key, 40))
		}
	}
	return func(ns *carillon.Namespace) {
		if runs {
			ns.Quotas.Runs = quota
		}
		if concurrent {
			ns.Quotas.ConcurrentRuns = r.concurrent
		}
		if ns.RateLimits == nil {
			ns.RateLimits = make(map[string]carillon.Rate)
		}
		maps.Copy(ns.RateLimits, rates)
		for _, key := range r.unlimit {
			delete(ns.RateLimits, key)
		}
	}, nil
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

// rateFields are the rates and quotas of a namespace, for people.
func rateFields(ns *carillon.Namespace) (fields []field) {
	for _, key := range slices.Sorted(maps.Keys(ns.RateLimits)) {
		fields = append(fields, field{"rate limit of " + key, ns.RateLimits[key].String()})
	}
	if ns.Quotas.Runs != (carillon.Rate{}) {
		fields = append(fields, field{"quota of runs", ns.Quotas.Runs.String()})
	}
	if n := ns.Quotas.ConcurrentRuns; n != 0 {
		fields = append(fields, field{"quota of concurrent runs", strconv.FormatInt(n, 10)})
	}
	return fields
}
