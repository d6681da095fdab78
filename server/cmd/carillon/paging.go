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
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, words []string) error {
		if p.limit < 0 {
			return usagef("--limit: %d is below 0", p.limit)
		}
		if before == nil {
			return nil
		}
		return before(cmd, words)
	}
}

// collect calls page until there are enough items. page reads the page after a token with at most size items
// and returns how many it got. collect returns the token of what is left, "" if nothing is.
func (p *paging) collect(page func(token string, size int) (got int, next string, err error)) (rest string, err error) {
	have, token := 0, p.token
	for {
		size := carillon.MaxBatch
		if p.limit > 0 {
			size = min(size, p.limit-have)
		}
		got, next, err := page(token, size)
		if err != nil {
			return "", err
		}
		have, token = have+got, next
		if token == "" || (p.limit > 0 && have >= p.limit) {
			return token, nil
		}
	}
}
