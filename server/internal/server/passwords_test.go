package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// TestThePasswordOfAStoreIsToldNowhere: not in the log, whatever its level, in metrics, health, answers and
// errors, while the store is there, while it is away, and when it does not take the password.
func TestThePasswordOfAStoreIsToldNowhere(t *testing.T) {
	const password = "S3CRETPASSW0RD"
	r := realserver.StartRedis(t)
	r.Do(t, "ACL", "SETUSER", "carillon", "on", ">"+password, "~*", "&*", "+@all")
	url := "redis://carillon:" + password + "@" + r.Address()
	log := &syncBuffer{}
	node := serve(t, server.Config{Store: url, Partitions: 2, Name: "node", Extensions: server.Extensions{
		Audit: server.Audit{To: server.AuditStore}},
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	told := &syncBuffer{}
	ask := func(path string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+node.HTTPAddr()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		var caller http.Client
		defer caller.CloseIdleConnections()
		res, err := caller.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(told, res.Body); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, node)
	if _, err := c.PutJob(t.Context(), carillon.Job{Name: "job", Schedule: "@yearly", Target: carillon.WorkerQueue("q")}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/v1/cluster", "/v1/namespaces/default/jobs", "/v1/audit"} {
		ask(path)
	}
	other := func(ctx context.Context, url string) error {
		_, err := server.Await(ctx, server.Config{Store: url, GRPC: "127.0.0.1:0", HTTP: server.None, Name: "other",
			Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		return err
	}
	wrong := strings.Replace(url, password, password+"x", 1)
	err := other(t.Context(), wrong)
	if err == nil {
		t.Error("another password was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- other(ctx, "redis://carillon:"+password+"@127.0.0.1:1") }() // where nothing listens
	eventually(t, "a node waits for its store", func() bool {
		return strings.Contains(log.String(), "waiting for the store")
	})
	cancel()
	away := await(t, ended)
	_, noKey := server.CreateKey(t.Context(), wrong, carillon.NewKey{Grants: grants(carillon.RoleAdmin, "*")})
	if noKey == nil {
		t.Error("another password was taken by a command")
	}
	all := log.String() + told.String() + fmt.Sprint(err, away, noKey)
	if !strings.Contains(all, "node is up") || !strings.Contains(all, "carillon_build_info") {
		t.Error("nothing was told")
	}
	if i := strings.Index(all, password); i >= 0 {
		t.Errorf("told: %s", all[max(0, i-300):min(len(all), i+100)])
	}
}
