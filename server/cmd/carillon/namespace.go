package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newNamespace returns the command `carillon namespace`.
func newNamespace(a app) *cobra.Command {
	return newGroup("namespace", "Show and change the settings of namespaces", newNamespaceGet(a),
		newNamespaceList(a), newNamespaceSet(a))
}

// newNamespaceGet returns the command `carillon namespace get`.
func newNamespaceGet(a app) *cobra.Command {
	var c connection
	var r repeated
	cmd := c.command(a, "get NAME", "Show the settings of a namespace", nil)
	r.one(cmd, a, &c,
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			ns, err := node.GetNamespace(ctx, words[0])
			return namespaceAnswer(&ns), err
		})
	cmd.ValidArgsFunction = c.first(c.namespaceNames)
	return cmd
}

// namespaceList holds the flags of `carillon namespace list`.
type namespaceList struct {
	connection
	listing
}

// newNamespaceList returns the command `carillon namespace list`.
func newNamespaceList(a app) *cobra.Command {
	var l namespaceList
	cmd := l.command(a, "list", "List the namespaces that have settings or a job", nil)
	cmd.Long = "List the namespaces that have settings or a job, in the order of their names.\n" +
		"Finished runs alone do not count."
	cmd.Aliases = []string{"ls"}
	l.listing.add(cmd, a, &l.connection, namespaceColumns.words(), l.list)
	return cmd
}

// list reads pages until there are enough namespaces.
func (l *namespaceList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	all, rest,
		err := collectSorted(l.listing, namespaceColumns,
		func(token string, size int) ([]carillon.Namespace, string, error) {
			page, err := node.ListNamespaces(ctx, carillon.NamespaceQuery{PageToken: token, PageSize: size})
			return page.Namespaces, page.NextPageToken, err
		})
	page := carillon.NamespacePage{Namespaces: all, NextPageToken: rest}
	return answer{message: wire.NamespacePageToProto(page), grid: namespaceColumns.grid(all),
		note:  moreNote(len(all), rest),
		names: namesOf(all, func(n *carillon.Namespace) string { return n.Name })}, err
}

var namespaceColumns = rowColumns(namespaceRow, "NAME", "GENERATION", "STRICT", "CONCURRENCY LIMITS")

func namespaceRow(n *carillon.Namespace) []string {
	return []string{n.Name, strconv.FormatUint(n.Generation, 10), strconv.FormatBool(n.Strict),
		strconv.Itoa(len(n.ConcurrencyLimits))}
}

// namespaceSet holds the flags of `carillon namespace set`.
type namespaceSet struct {
	connection
	strict       bool
	limits       []string
	unlimit      []string
	unserved     time.Duration
	quotas       quotaFlags
	ifGeneration uint64
}

// newNamespaceSet returns the command `carillon namespace set`.
func newNamespaceSet(a app) *cobra.Command {
	var s namespaceSet
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change settings of a namespace and leave the rest",
		Long: "Change settings of a namespace: those that are given, and leave the rest. They are read, changed and put over the\n" +
			"generation that was read; if somebody else has changed them meanwhile, this is done again.",
		Example: `carillon namespace set default --concurrency-limit licence=3 --concurrency-limit database=20
carillon namespace set default --strict=false --no-concurrency-limit licence
carillon namespace set shop --quota-jobs 10000 --quota-payload-bytes 104857600 --quota-puts 100/1s/500
carillon namespace set default --rate-limit mail=100/1m/20 --quota-runs 50`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			change, err := s.change(cmd)
			if err != nil {
				return err
			}
			return s.ask(a, func(ctx context.Context, node *client.Client, words []string) (answer, error) {
				ns, err := setNamespace(ctx, node, words[0], s.ifGeneration, change)
				return namespaceAnswer(&ns), err
			})(cmd, words)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&s.strict, "strict", false,
		"refuse recurring jobs whose retries can take as long as their interval")
	cmd.Flags().StringArrayVar(&s.limits, "concurrency-limit", nil,
		"`key=n`: at most n attempts of the jobs with this concurrency key at a time; repeatable")
	cmd.Flags().StringArrayVar(&s.unlimit, "no-concurrency-limit", nil,
		"concurrency `key` to limit no longer; repeatable")
	cmd.Flags().DurationVar(&s.unserved, "unserved-after", 0,
		"for how long a queue must be unserved before an event says so, from 1m to 24h; 0 is the default, 5m")
	s.quotas.add(cmd)
	cmd.Flags().Uint64Var(&s.ifGeneration, "if-generation",
		0, "only over this `generation` of the settings; 0 is any")
	s.addServer(cmd)
	return cmd
}

// setAgain is how long a change of settings waits before it is retried: for a moment a node may only know the
// previous settings.
const setAgain = 50 * time.Millisecond

// setNamespace reads the settings, changes them and puts them over the generation that was read, or over
// ifGeneration unless that is 0. If they were changed meanwhile it starts again, until the call's time is
// over, so that the other change is kept.
func setNamespace(ctx context.Context, node carillon.Namespaces, name string, ifGeneration uint64,
	change func(*carillon.Namespace) error) (carillon.Namespace, error) {
	for {
		ns, err := node.GetNamespace(ctx, name)
		if err == nil {
			err = change(&ns)
		}
		if err != nil {
			return ns, err
		}
		if ifGeneration != 0 {
			ns.Generation = ifGeneration
		}
		ns, err = node.PutNamespace(ctx, ns)
		if ifGeneration != 0 || !errors.Is(err, carillon.FailedPrecondition) {
			return ns, err
		}
		select {
		case <-time.After(setAgain):
		case <-ctx.Done():
			return ns, err
		}
	}
}

// change returns the change that the flags ask for.
func (s *namespaceSet) change(cmd *cobra.Command) (func(*carillon.Namespace) error, error) {
	strict, unserved := cmd.Flags().Changed("strict"), cmd.Flags().Changed("unserved-after")
	quotas, err := s.quotas.change(cmd)
	if err != nil {
		return nil, err
	}
	if !strict && !unserved && quotas == nil && len(s.limits)+len(s.unlimit) == 0 {
		return nil, usagef("nothing to change: give --strict, --concurrency-limit, --no-concurrency-limit, --rate-limit, " +
			"--no-rate-limit, --unserved-after or a quota")
	}
	limits := make(map[string]int)
	for _, text := range s.limits {
		i := strings.LastIndexByte(text, '=') // a key may have one
		if i <= 0 {
			return nil, usagef("--concurrency-limit: %q is not key=n", clip(text, 40))
		}
		n, err := strconv.Atoi(text[i+1:])
		if err != nil {
			return nil, usagef("--concurrency-limit: %s", numberError(text[i+1:], err))
		}
		limits[text[:i]] = n
	}
	for _, key := range s.unlimit {
		if _, both := limits[key]; both {
			return nil, usagef("--concurrency-limit and --no-concurrency-limit cannot both be given for %q",
				clip(key, 40))
		}
	}
	return func(ns *carillon.Namespace) error {
		if strict {
			ns.Strict = s.strict
		}
		if unserved {
			ns.UnservedAfter = s.unserved
		}
		if quotas != nil {
			quotas(ns)
		}
		if ns.ConcurrencyLimits == nil {
			ns.ConcurrencyLimits = make(map[string]int)
		}
		maps.Copy(ns.ConcurrencyLimits, limits)
		for _, key := range s.unlimit {
			delete(ns.ConcurrencyLimits, key)
		}
		return nil
	}, nil
}

// namespaceAnswer describes a namespace.
func namespaceAnswer(ns *carillon.Namespace) answer {
	fields := []field{{"name", ns.Name}, {"generation", strconv.FormatUint(ns.Generation, 10)},
		{"strict", strconv.FormatBool(ns.Strict)}}
	for _, key := range slices.Sorted(maps.Keys(ns.ConcurrencyLimits)) {
		fields = append(fields, field{"concurrency limit of " + key, strconv.Itoa(ns.ConcurrencyLimits[key])})
	}
	if ns.UnservedAfter != 0 {
		fields = append(fields, field{"unserved after", ns.UnservedAfter.String()})
	}
	fields = append(fields, quotaFields(ns)...)
	for i := range ns.Webhooks {
		fields = append(fields, field{"webhook " + ns.Webhooks[i].Name, hookTarget(&ns.Webhooks[i])})
	}
	return answer{message: wire.NamespaceToProto(ns), names: []string{ns.Name}, text: description(fields)}
}
