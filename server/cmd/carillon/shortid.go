package main

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/store"
)

// Lengths of what stands for a run id. Ids of one job begin alike, and those of one time end alike, so the
// short form is of a hash.
const (
	shortIDLength = 8
	leastOfID     = 4
)

// idHelp is what the help of a command about one run says of its argument.
const idHelp = `ID is the id of a run, its beginning or end, or the short form that "carillon run list" shows, or its beginning; at least four
characters, and of one run of the namespace only.`

// mostResolved is how many runs are looked at for the one that a short id means.
const mostResolved = 100_000

var shortIDs = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// shortID is the form of a run's id for people.
func shortID(id string) string {
	hash := sha256.Sum256([]byte(id))
	return shortIDs.EncodeToString(hash[:])[:shortIDLength]
}

// wholeID returns the id of the run that a text means: the id, its beginning or end, or the beginning of its
// short form. It must be of one run of the namespace.
func wholeID(ctx context.Context, node *client.Client, namespace, text string) (string, error) {
	text = strings.ToLower(text)
	if _, err := store.ParseRunID(text); err == nil {
		return text, nil
	}
	if len(text) < leastOfID || strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		return "", usagef("%q is not the id of a run: give it as `carillon run list` shows it, or at least %d characters of it",
			clip(text, 60), leastOfID)
	}
	found := make(map[string]string) // the job, by id
	q := carillon.RunQuery{Namespace: namespace, PageSize: carillon.MaxBatch, Statuses: runStatuses}
	for seen := 0; ; {
		page, err := node.ListRuns(ctx, q)
		if err != nil {
			return "", err
		}
		for i := range page.Runs {
			if id := page.Runs[i].ID; strings.HasPrefix(id, text) || strings.HasSuffix(id, text) ||
				strings.HasPrefix(shortID(id), text) {
				found[id] = page.Runs[i].Job
			}
		}
		seen += len(page.Runs)
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return theOne(namespace, text, found)
		}
		if seen >= mostResolved {
			return "", usagef("namespace %q has more than %d runs; give the whole id, which -o wide and -o name show",
				namespace, mostResolved)
		}
	}
}

// theOne returns the only id that was found.
func theOne(namespace, text string, found map[string]string) (string, error) {
	if len(found) == 0 {
		return "", carillon.Errorf(carillon.NotFound, "id", "no run of namespace %q has an id that is or begins with %q",
			namespace, clip(text, 60))
	}
	var candidates []string
	for id, job := range found {
		if len(found) == 1 {
			return id, nil
		}
		if len(candidates) < shownAtMost {
			candidates = append(candidates, "  "+shortID(id)+"  "+id+"  "+clip(job, 60))
		}
	}
	return "", usagef("%q may be one of %d runs; give more of the id\n%s", clip(text, 60), len(found),
		strings.Join(candidates, "\n"))
}
