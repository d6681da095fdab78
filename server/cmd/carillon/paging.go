package main

import (
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
