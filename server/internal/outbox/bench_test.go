package outbox_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// BenchmarkCommitToPut measures from the commit of a transaction to when its job is there, at a steady rate of
// transactions, with a store that keeps nothing and a database that is durable.
func BenchmarkCommitToPut(b *testing.B) {
	url := realserver.StartPostgres(b).Database(b)
	if err := outbox.Install(b.Context(), url, outbox.Roles{}); err != nil {
		b.Fatal(err)
	}
	n, err := server.Start(b.Context(), server.Config{Store: "memory:", DrainGrace: -1,
		Extensions: server.Extensions{Feeds: []server.Feed{feed(url)}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := n.Close(b.Context()); err != nil {
			b.Log(err)
		}
	})
	c := session(b, url)
	for _, rate := range []int{5, 50, 200} {
		b.Run(fmt.Sprint("rate=", rate), func(b *testing.B) {
			var took []time.Duration
			tick := time.NewTicker(time.Second / time.Duration(rate))
			defer tick.Stop()
			for b.Loop() {
				<-tick.C
				name := value[string](b, c, `SELECT carillon.put_job('{"due_time": "10h", "target": {"worker": {"queue": "q"}}}')::text`)
				committed := time.Now()
				look := time.NewTicker(100 * time.Microsecond)
				for job(b, n, name) == nil {
					<-look.C
				}
				look.Stop()
				took = append(took, time.Since(committed))
			}
			slices.Sort(took)
			at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
			b.ReportMetric(at(0.5), "p50-ms")
			b.ReportMetric(at(0.99), "p99-ms")
			b.ReportMetric(at(1), "max-ms")
		})
	}
}

// BenchmarkBehindABlockedName measures from the commit of a command to when it is done while 100,000 others wait
// for one of their name.
func BenchmarkBehindABlockedName(b *testing.B) {
	url := realserver.StartPostgres(b, realserver.Volatile()...).Database(b)
	if err := outbox.Install(b.Context(), url, outbox.Roles{}); err != nil {
		b.Fatal(err)
	}
	c := session(b, url)
	exec(b, c, `SELECT carillon.put_job('{"name": "stuck", "due_time": "1h", "target": {"worker": {"queue": "q"}}}')
		FROM generate_series(1, 100000)`)
	exec(b, c, "ANALYZE carillon.outbox")
	done := make(chan struct{}, 1)
	reading(b, url, func(m message.Command) error {
		if m.Key.Name == "stuck" {
			return errors.New("away")
		}
		done <- struct{}{}
		return nil
	})
	exec(b, c, putOfName, "first")
	<-done
	b.ResetTimer()
	for b.Loop() {
		exec(b, c, putOfName, "other")
		<-done
	}
}
