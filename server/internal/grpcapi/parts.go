package grpcapi

import (
	"iter"

	"github.com/carillonhq/carillon"
)

// maxPart is about how many bytes one message to a worker has at most, unless a single run is larger. Clients
// receive at most 4 MiB.
const maxPart = 1 << 20

// parts cuts a response into messages of at most about maxPart bytes each: first the words, then the runs.
func parts(resp carillon.WorkResponse) iter.Seq[carillon.WorkResponse] {
	return func(yield func(carillon.WorkResponse) bool) {
		runs := resp.Runs
		part := resp
		for {
			n, size := 0, wordsSize(&part)
			for n < len(runs) && (n == 0 || size+runSize(&runs[n]) <= maxPart) {
				size += runSize(&runs[n])
				n++
			}
			part.Runs, runs = runs[:n], runs[n:]
			if !yield(part) || len(runs) == 0 {
				return
			}
			part = carillon.WorkResponse{Since: resp.Since}
		}
	}
}

// A message's size is estimated: exact ones cost a walk over all fields.
const (
	runOverhead  = 160
	wordOverhead = 4
)

func wordsSize(r *carillon.WorkResponse) int {
	size := 0
	for _, words := range [...][]string{r.Cancel, r.Stale, r.Acks, r.Nodes, r.Wanted, r.Confirmed} {
		for _, w := range words {
			size += len(w) + wordOverhead
		}
	}
	for _, c := range r.Withdrawn {
		size += len(c.Queue) + 2*wordOverhead
	}
	return size
}

func runSize(r *carillon.Run) int {
	size := runOverhead + len(r.ID) + len(r.Job) + len(r.Token) + len(r.Data.Bytes)
	for k, v := range r.Metadata {
		size += len(k) + len(v) + wordOverhead
	}
	return size
}
