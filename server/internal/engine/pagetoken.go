package engine

import (
	"slices"
	"strconv"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/pagetoken"
)

// jobPages returns the page tokens of a list of jobs.
func jobPages(macKey []byte, q *carillon.JobQuery) pagetoken.List {
	list := []string{"jobs", q.Namespace, q.Prefix, q.Label}
	if q.Phase != nil {
		list = append(list, q.Phase.String())
	}
	return pagetoken.List{Names: list, MACKey: macKey}
}

// namespacePages returns the page tokens of a list of namespaces.
func namespacePages(macKey []byte) pagetoken.List {
	return pagetoken.List{Names: []string{"namespaces"}, MACKey: macKey}
}

// calendarPages returns the page tokens of a list of calendars.
func calendarPages(macKey []byte, namespace string) pagetoken.List {
	return pagetoken.List{Names: []string{"calendars", namespace}, MACKey: macKey}
}

// runPages returns the page tokens of a list of runs. The order in which statuses were given is no matter.
func runPages(macKey []byte, q *carillon.RunQuery) pagetoken.List {
	list := []string{"runs", q.Namespace, q.Job, q.Prefix, q.Queue, q.Kind, q.Label, q.Error,
		boundName(q.From), boundName(q.Until)}
	for _, s := range slices.Compact(slices.Sorted(slices.Values(q.Statuses))) {
		list = append(list, s.String())
	}
	return pagetoken.List{Names: list, MACKey: macKey}
}

func boundName(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}
