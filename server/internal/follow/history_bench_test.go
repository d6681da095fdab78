package follow_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/follow"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	_ "github.com/carillonhq/carillon/server/store/pebble" // stores of the benchmark
	_ "github.com/carillonhq/carillon/server/store/postgres"
	_ "github.com/carillonhq/carillon/server/store/s3"
)

const (
	// historyRuns is how many finished runs the benchmark moves, of historyPartitions.
	historyRuns, historyPartitions = 200_000, 64
)

// BenchmarkHistory moves finished runs from the Pebble store of a node that serves them: -benchtime 1x is
// enough. What is there when it ends is compared by the digest, as always.
func BenchmarkHistory(b *testing.B) {
	server := realserver.StartS3(b, bucketName)
	b.Setenv("AWS_ACCESS_KEY_ID", server.Key)
	b.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	postgres := realserver.StartPostgres(b)
	for name, url := range map[string]func(i int) string{
		"pebble":   func(int) string { return "pebble:" + filepath.Join(b.TempDir(), "to") },
		"postgres": func(int) string { return postgres.Database(b) },
		"bucket": func(i int) string {
			return fmt.Sprintf("s3://%s/%d-%d?region=us-east-1&path-style=yes&endpoint=%s", bucketName, b.N, i, server.Endpoint())
		},
	} {
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				b.StopTimer()
				nodes, end := history(b)
				to := url(i)
				b.StartTimer()
				result, err := transfer.MigrateLive(b.Context(), nodes, func(ctx context.Context, o store.Options) (
					store.Store, error) {
					return store.Open(ctx, to, o)
				}, nil)
				b.StopTimer()
				if err != nil || result.Runs != historyRuns {
					b.Fatalf("%+v, %v", result, err)
				}
				end()
			}
			b.ReportMetric(float64(historyRuns*b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// history makes a store with finished runs, and serves it.
func history(b *testing.B) (nodes transfer.Nodes, end func()) {
	s, err := store.Open(b.Context(), "pebble:"+filepath.Join(b.TempDir(), "from"), store.Options{Partitions: historyPartitions})
	if err != nil {
		b.Fatal(err)
	}
	all := make([]int, historyPartitions)
	for p := range all {
		all[p] = p
	}
	terms, err := s.Leaser().Claim(b.Context(), "n", all, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	var held []store.Holding
	for p, term := range terms {
		held = append(held, store.Holding{Partition: p, Term: term})
		shard, err := s.Shard(p, term)
		if err != nil {
			b.Fatal(err)
		}
		batch := &store.Batch{}
		for i := range historyRuns / historyPartitions {
			k := carillon.Key{Namespace: "default", Name: fmt.Sprintf("job-%d-%d", p, i)}
			batch.Runs = append(batch.Runs, store.RunRecord{Key: k, Status: carillon.RunSucceeded,
				ID:    store.RunID{Partition: uint16(p), UID: store.NewUID(k, [8]byte{1}), Scheduled: int64(i)},
				Grant: store.Grant{Term: term}, Due: 1, Started: 2, Finished: int64(i), Expires: 1 << 60, Attempt: 1,
				Response: []byte("done"), Worker: "worker-1", Queue: "mail"})
		}
		if err := shard.Apply(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	served := grpc.NewServer()
	follow.Register(served, follow.Source{Tap: follow.NewTap(historyPartitions), Store: s,
		Serves: func() []store.Holding { return held }}, "secret", nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- served.Serve(l) }()
	return func(ctx context.Context, but []string) ([]transfer.Node, error) {
			if len(but) > 0 {
				return nil, nil
			}
			return []transfer.Node{follow.Call(ctx, "n", l.Addr().String(), "secret", insecure.NewCredentials())}, nil
		}, func() {
			served.Stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}
}
