package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestARefusalForAQuotaSaysWhatAndWhen through both interfaces: which quota, what it is, and for how long it is
// of no use to come again, if that is known.
func TestARefusalForAQuotaSaysWhatAndWhen(t *testing.T) {
	s := serve(t, server.Config{Store: "memory:", Partitions: 4})
	c := dial(t, s)
	rest := func(name, body string) (status int, after time.Duration, field, detail string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
			fmt.Sprintf("http://%s/v1/namespaces/shop/jobs/%s", s.HTTPAddr(), name), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		answer, err := (&http.Client{Timeout: patience}).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var p struct{ Field, Detail string }
		if err := json.NewDecoder(answer.Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return answer.StatusCode, time.Duration(seconds) * time.Second, p.Field, p.Detail
	}
	for name, q := range map[string]struct {
		quotas      carillon.Quotas
		field, says string
		when        bool // to come again is said
	}{
		"of jobs": {carillon.Quotas{Jobs: 1}, "quotas.jobs", `has 1 of 1 jobs`, false},
		"of bytes": {carillon.Quotas{PayloadBytes: 3}, "quotas.payload_bytes",
			"has 0 of 3 bytes of data, and 4 more", false},
		"of puts": {carillon.Quotas{Puts: carillon.Rate{Count: 1, Period: time.Hour}}, "quotas.puts",
			"may change 1 jobs in 1h", true},
	} {
		t.Run(name, func(t *testing.T) {
			ns := carillon.Namespace{Name: "shop", Quotas: q.quotas}
			old, err := c.GetNamespace(t.Context(), "shop")
			if err == nil {
				ns.Generation = old.Generation
				_, err = c.PutNamespace(t.Context(), ns)
			}
			if err != nil {
				t.Fatal(err)
			}
			job := carillon.Job{Namespace: "shop", Name: "a", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
			if _, err := c.PutJob(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			job.Name, job.Data = "b", carillon.Bytes([]byte("four"), "")
			_, err = c.PutJob(t.Context(), job)
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.ResourceExhausted || e.Field != q.field || !strings.Contains(e.Message, q.says) ||
				e.Unknown || (e.RetryAfter > 0) != q.when {
				t.Errorf("over gRPC: %v, after %v", err, e.RetryAfter)
			}
			status, after, field, detail := rest("b",
				`{"due_time": "1h", "target": {"worker": {"queue": "q"}}, "data": 1234}`)
			if status != http.StatusTooManyRequests || field != q.field || !strings.Contains(detail, q.says) ||
				(after > 0) != q.when {
				t.Errorf("over REST: %d, %s: %s, after %v", status, field, detail, after)
			}
		})
	}
}
