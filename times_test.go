package carillon_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

func TestTimesQueriesAreBounded(t *testing.T) {
	key := carillon.Key{Namespace: "default", Name: "a"}
	for field, q := range map[string]carillon.TimesQuery{
		"":          {Key: key, Count: carillon.MaxBatch, Until: time.Unix(1e9, 0)},
		"name":      {Key: carillon.Key{Namespace: "default", Name: "a//b"}},
		"namespace": {Key: carillon.Key{Namespace: "a.b", Name: "a"}},
		"count":     {Key: key, Count: carillon.MaxBatch + 1},
		"until":     {Key: key, Until: carillon.LatestTime.Add(1)},
	} {
		err := q.Validate()
		if e, _ := errors.AsType[*carillon.Error](err); (err == nil) != (field == "") || e != nil && e.Field != field {
			t.Errorf("%q: %v", field, err)
		}
	}
	if q := (carillon.TimesQuery{Key: key, Count: -1}); q.Validate() == nil {
		t.Error("a negative count is accepted")
	}
	if q := (carillon.TimesQuery{}); q.Most() != carillon.DefaultTimes {
		t.Errorf("%d by default", q.Most())
	}
}
