package grpcapi

import (
	"iter"

	"github.com/carillonhq/carillon"
)

// maxPart is about how many bytes one message to a worker has at most, unless a single run is larger. Clients receive at
// most 4 MiB.
const maxPart = 1 << 20

// gather adds to first what waits in the inbox, until it makes a full message.
func gather(first carillon.WorkResponse, inbox <-chan carillon.WorkResponse) carillon.WorkResponse {
	resp, size := first, responseSize(&first)
	for size < maxPart {
		select {
		case next, ok := <-inbox:
			if !ok {
				return resp // the writer finds it closed when it comes back
			}
			size += responseSize(&next)
			merge(&resp, next)
		default:
			return resp
		}
	}
	return resp
}

func merge(into *carillon.WorkResponse, next carillon.WorkResponse) {
	into.Runs = append(into.Runs, next.Runs...)
	into.Cancel = append(into.Cancel, next.Cancel...)
	into.Stale = append(into.Stale, next.Stale...)
	into.Acks = append(into.Acks, next.Acks...)
	if next.Nodes != nil {
		into.Nodes = next.Nodes
	}
	into.Drain = into.Drain || next.Drain
}

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
			part = carillon.WorkResponse{}
		}
	}
}

// A message's size is estimated: exact ones cost a walk over all fields.
const (
	runOverhead  = 160
	wordOverhead = 4
)

func responseSize(r *carillon.WorkResponse) int {
	size := wordsSize(r)
	for i := range r.Runs {
		size += runSize(&r.Runs[i])
	}
	return size
}

func wordsSize(r *carillon.WorkResponse) int {
	size := 0
	for _, words := range [...][]string{r.Cancel, r.Stale, r.Acks, r.Nodes} {
		for _, w := range words {
			size += len(w) + wordOverhead
		}
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
