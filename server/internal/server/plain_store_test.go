package server_test

import (
	"log/slog"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/s3"
)

// TestARemoteStoreWithoutTLSIsWarnedOf, once, and nothing else is.
func TestARemoteStoreWithoutTLSIsWarnedOf(t *testing.T) {
	// 192.0.2.0/24 is nobody's (RFC 5737)
	for url, want := range map[string]int{
		"redis://192.0.2.1": 1, "rediss://192.0.2.1": 0, "redis://127.0.0.1:1": 0, "memory:": 0,
		"postgres://u:secret@192.0.2.1/d?connect_timeout=1":              1, // may fall back to plain text
		"postgres://u@192.0.2.1/d?sslmode=disable&connect_timeout=1":     1,
		"postgres://u@192.0.2.1/d?sslmode=require&connect_timeout=1":     1, // any server will do
		"postgres://u@192.0.2.1/d?sslmode=verify-ca&connect_timeout=1":   0,
		"postgres://u@192.0.2.1/d?sslmode=verify-full&connect_timeout=1": 0,
		"postgres://u@localhost:1/d?sslmode=disable":                     0,
		"etcd://192.0.2.1":  1,
		"etcds://192.0.2.1": 0,
		"s3://b/p?endpoint=http%3A%2F%2F192.0.2.1:9000":  1,
		"s3://b/p?endpoint=https%3A%2F%2F192.0.2.1:9000": 0,
		"s3://b/p?endpoint=http%3A%2F%2F127.0.0.1:9000":  0,
		"s3://b/p": 0,
	} {
		log := &lines{}
		server.WarnOfPlainStore(server.Config{Store: url, Log: slog.New(slog.NewTextHandler(log, nil))})
		if got := log.containing("store is on another machine"); got != want || log.containing("secret") > 0 {
			t.Errorf("%s: warned %d times, want %d", url, got, want)
		}
	}
}
