package engine

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/pagetoken"
)

// TestPageTokensAreOfTheirList: a token is accepted only for the list that it was made for, and not with a
// bit changed.
func TestPageTokensAreOfTheirList(t *testing.T) {
	key := []byte("key")
	staged := carillon.PhaseStaged
	dead, failed := []carillon.RunStatus{carillon.RunDead}, []carillon.RunStatus{carillon.RunFailed}
	at := time.Unix(1, 0)
	lists := []pagetoken.List{
		jobPages(key, &carillon.JobQuery{Namespace: "a"}), jobPages(key, &carillon.JobQuery{Namespace: "b"}),
		jobPages(key, &carillon.JobQuery{Namespace: "a", Prefix: "p"}), jobPages(key,
			&carillon.JobQuery{Namespace: "a", Label: "p"}),
		jobPages(key, &carillon.JobQuery{Namespace: "ap"}),
		jobPages(key, &carillon.JobQuery{Namespace: "a", Phase: &staged}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Statuses: dead}), runPages(key,
			&carillon.RunQuery{Namespace: "b", Statuses: dead}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Job: "p", Statuses: dead}), runPages(key,
			&carillon.RunQuery{Namespace: "a", Job: "p"}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Job: "p", Statuses: failed}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Prefix: "p"}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Queue: "p"}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Kind: "p"}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Label: "p"}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Error: "p"}),
		runPages(key, &carillon.RunQuery{Namespace: "a", From: at}),
		runPages(key, &carillon.RunQuery{Namespace: "a", Until: at}),
		namespacePages(key), namespacePages([]byte("another")),
		jobPages([]byte("another"), &carillon.JobQuery{Namespace: "a"}),
	}
	for i, made := range lists {
		token := made.At([]byte("place"))
		for k, asked := range lists {
			if place, err := asked.Place(token); (err == nil) != (i == k) || err == nil && string(place) != "place" {
				t.Errorf("a token of %q for %q: %q, %v", made.Names, asked.Names, place, err)
			}
		}
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		for bit := range 8 * len(raw) {
			raw[bit/8] ^= 1 << (bit % 8)
			if place, err := made.Place(base64.RawURLEncoding.EncodeToString(raw)); err == nil {
				t.Errorf("a token of %q with bit %d turned over: %q", made.Names, bit, place)
			}
			raw[bit/8] ^= 1 << (bit % 8)
		}
	}
	for _, forged := range []string{"zzz", "null", "not base64!", "AA",
		base64.RawURLEncoding.EncodeToString([]byte(`{"1":"AA=="}`))} {
		_, err := lists[0].Place(forged)
		if e := (*carillon.Error)(nil); !errors.As(err, &e) || e.Kind != carillon.InvalidArgument ||
			e.Field != "page_token" {
			t.Errorf("%q: %v", forged, err)
		}
	}
	if place, err := lists[0].Place(""); place != nil || err != nil {
		t.Errorf("no token: %q, %v", place, err)
	}
}
