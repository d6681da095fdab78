package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
)

// paging holds the flags of a list that may be long.
type paging struct {
	limit int
	token string
}

func (p *paging) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.limit, "limit", 100, "show at most this many; 0 shows all")
	cmd.Flags().StringVar(&p.token, "page-token", "",
		"go on after an earlier list: the next_page_token that -o json printed at its end")
	check(cmd, func(*cobra.Command) error {
		if p.limit < 0 {
			return usagef("--limit: %d is below 0", p.limit)
		}
		return nil
	})
}

// mostSorted is how many things a list sorts at most: it reads all of them for that.
const mostSorted = 100_000

// listing holds the flags of a list of things in a table.
type listing struct {
	paging
	repeat repeated
	sort   string
}

// add adds the flags to a command whose table has columns of these names, and lets it answer by q.
func (l *listing) add(cmd *cobra.Command, a app, c *connection, sortable []string, q question) {
	addFormats(cmd, listFormats)
	l.paging.add(cmd)
	cmd.Flags().StringVar(&l.sort, "sort", "",
		"sort by a `column` of the table, such as "+sortable[0]+"; with - before it the other way round")
	completeBy(cmd, "sort", func(*cobra.Command) []string { return sortable })
	check(cmd, func(cmd *cobra.Command) error {
		name := strings.TrimPrefix(l.sort, "-")
		switch {
		case !cmd.Flags().Changed("sort"):
		case !slices.Contains(sortable, name):
			return usagef("--sort: %q is not one of the columns %s%s", clip(name, 40), strings.Join(sortable, ", "),
				hint("; did you mean %s?", name, sortable))
		case l.token != "":
			return usagef("--sort: with --page-token only what is left could be sorted; leave one of them out")
		}
		return nil
	})
	l.repeat.add(cmd)
	cmd.RunE = l.repeat.ask(a, c, q)
}

// collectSorted is collect, in the order that the flags ask for. For that it reads all, whatever the limit.
func collectSorted[T any](l listing, cs columns[T], page pageOf[T]) (items []T, rest string, err error) {
	if l.sort == "" {
		return collect(l.paging, page)
	}
	items, rest, err = collect(paging{limit: mostSorted}, page)
	switch {
	case err != nil:
		return nil, "", err
	case rest != "":
		return nil, "", usagef("--sort: there are more than %d; give flags that select fewer", mostSorted)
	}
	cs.sort(items, l.sort)
	if l.limit > 0 && len(items) > l.limit {
		items = items[:l.limit]
	}
	return items, "", nil
}

// moreNote says that a list has more.
func moreNote(shown int, rest string) string {
	if rest == "" {
		return ""
	}
	return fmt.Sprintf("These are the first %d; --limit 0 shows all.", shown)
}

// namesOf returns the name of each thing.
func namesOf[T any](items []T, name func(*T) string) []string {
	names := make([]string, 0, len(items))
	for i := range items {
		names = append(names, name(&items[i]))
	}
	return names
}

// pageOf reads the page after a token, with at most size items, and returns the token of the next one.
type pageOf[T any] func(token string, size int) (items []T, next string, err error)

// collect reads pages until there are enough items; rest is the token of what is left, "" if nothing is.
func collect[T any](p paging, page pageOf[T]) (items []T, rest string, err error) {
	for token := p.token; ; {
		size := carillon.MaxBatch
		if p.limit > 0 {
			size = min(size, p.limit-len(items))
		}
		more, next, err := page(token, size)
		if err != nil {
			return nil, "", err
		}
		items, token = append(items, more...), next
		if token == "" || (p.limit > 0 && len(items) >= p.limit) {
			return items, token, nil
		}
	}
}
