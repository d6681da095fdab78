package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// waiting is a server that waits for its store.
type waiting struct {
	grpc, http string
	log        *lines
	stop       func() error // ends it
	ended      chan error
}

// awaits begins to start a node on a store.
func awaits(t *testing.T, url string) *waiting {
	t.Helper()
	return awaitsWith(t, server.Config{Store: url, Name: "node", Partitions: 4})
}

// awaitsWith begins to start a node with these settings and others.
func awaitsWith(t *testing.T, c server.Config) *waiting {
	t.Helper()
	at := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(realserver.Port(t))) }
	w := &waiting{grpc: at(), http: at(), log: &lines{}, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		c.GRPC, c.HTTP, c.DrainGrace = w.grpc, w.http, -1
		c.Log = slog.New(slog.NewTextHandler(w.log, nil))
		s, err := server.Await(ctx, c)
		if err == nil {
			err = s.Run(ctx)
		}
		w.ended <- err
	}()
	w.stop = func() error {
		cancel()
		return await(t, w.ended)
	}
	return w
}

// get is the status and the text at a path; 0 while nobody answers.
func (w *waiting) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := (&http.Client{Timeout: patience}).Get("http://" + w.http + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// getAs returns the status of a request under a name.
func (w *waiting) getAs(t *testing.T, host, path string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.http+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	resp, err := (&http.Client{Timeout: patience}).Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// stores are started and gone: what each of them says when it cannot be reached.
func stores(t *testing.T, f func(t *testing.T, url string, up func())) {
	t.Run("redis", func(t *testing.T) {
		r := realserver.StartRedis(t)
		r.Down(t)
		f(t, "redis://"+r.Address(), func() { r.Up(t) })
	})
	t.Run("postgres", func(t *testing.T) {
		p := realserver.StartPostgres(t, realserver.Volatile()...)
		url := p.Database(t)
		p.Down(t)
		f(t, url, func() { p.Up(t) })
	})
}

// TestANodeWaitsForItsStore starts a node whose store is not there: it lives, is not ready and says why,
// refuses calls, logs one line, and goes to work by itself when the store comes.
func TestANodeWaitsForItsStore(t *testing.T) {
	stores(t, func(t *testing.T, url string, up func()) {
		w := awaits(t, url)
		eventually(t, "the node lives", func() bool {
			code, text := w.get(t, "/livez")
			return code == 200 && text == "ok\n"
		})
		if code, text := w.get(t, "/readyz"); code != 503 ||
			!strings.Contains(text, "waiting for the store") || !strings.Contains(text, "refused") {
			t.Errorf("readyz: %d %q", code, text)
		}
		if code, _ := w.get(t, "/v1/namespaces/default/jobs"); code != 503 {
			t.Errorf("a call: %d", code)
		}
		if code := w.getAs(t, "evil.example", "/livez"); code != 403 {
			t.Errorf("under a name that is not the node's: %d", code)
		}
		conn, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		is, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil || is.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("health: %v, %v", is, err)
		}
		c := dialAt(t, w.grpc)
		if _, err := c.GetJob(t.Context(), carillon.Key{Namespace: "default",
			Name: "a"}); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("a call: %v", err)
		}
		up()
		eventually(t, "the node is ready", func() bool { code, _ := w.get(t, "/readyz"); return code == 200 })
		if _, err := c.PutJob(t.Context(), carillon.Job{Name: "a",
			Target: carillon.WorkerQueue(queue)}); err != nil {
			t.Errorf("put: %v", err)
		}
		if n, m := w.log.containing("waiting for the store"), w.log.containing("the store is there"); n != 1 ||
			m != 1 {
			t.Errorf("%d lines that it waits, %d that it does not any more", n, m)
		}
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestAWaitingNodeEnds tells a node to end before its store has come.
func TestAWaitingNodeEnds(t *testing.T) {
	stores(t, func(t *testing.T, url string, _ func()) {
		w := awaits(t, url)
		eventually(t, "the node lives", func() bool { code, _ := w.get(t, "/livez"); return code == 200 })
		if err := w.stop(); !errors.Is(err, server.ErrNotStarted) {
			t.Errorf("%v", err)
		}
		for _, address := range []string{w.grpc, w.http} {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Errorf("the node still listens: %v", err)
				continue
			}
			_ = l.Close()
		}
	})
}

// slowStore is a store that does not answer reads of some kinds in time while it is slow.
type slowStore struct {
	store.Store
	slow  *atomic.Bool
	kinds func(kind byte) bool
}

// Shard implements [store.Store].
func (s slowStore) Shard(p int, t store.Term) (store.Shard, error) {
	sh, err := s.Store.Shard(p, t)
	return slowShard{sh, &s}, err
}

type slowShard struct {
	store.Shard
	store *slowStore
}

// MetaRecords implements [store.Shard].
func (s slowShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if s.store.slow.Load() && s.store.kinds(q.Kind) {
		return nil, fmt.Errorf("read partition 0: %w", context.DeadlineExceeded)
	}
	return s.Shard.MetaRecords(ctx, q)
}

// TestANodeWaitsForAStoreThatIsSlow: a store that could be opened, and does not answer one of the first reads in
// time, is waited for, as one that is away.
func TestANodeWaitsForAStoreThatIsSlow(t *testing.T) {
	for name, c := range map[string]struct {
		kinds func(kind byte) bool
		auth  string
	}{
		"the first":        {kinds: func(byte) bool { return true }},
		"of the keys used": {kinds: func(kind byte) bool { return kind == store.KindSeal }},
		"of the engine":    {kinds: func(kind byte) bool { return kind != store.KindMove && kind != store.KindSeal }},
		"of API keys":      {kinds: func(kind byte) bool { return kind == store.KindKey }, auth: server.AuthKeys},
	} {
		t.Run(name, func(t *testing.T) {
			var slow atomic.Bool
			slow.Store(true)
			open := func(o store.Options) store.Store {
				return slowStore{memory.New(memory.Options{Partitions: o.Partitions}), &slow, c.kinds}
			}
			config := server.Config{Store: "memory:", Name: "node", Partitions: 4}
			config.Auth = c.auth
			w := awaitsWith(t, config.Opening(open))
			eventually(t, "the node waits for its store", func() bool {
				code, text := w.get(t, "/readyz")
				return code == 503 && strings.Contains(text, "waiting for the store") &&
					strings.Contains(text, "read partition 0")
			})
			slow.Store(false)
			eventually(t, "the node is ready", func() bool {
				code, _ := w.get(t, "/readyz")
				return code == 200
			})
			if err := w.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSomeErrorsOfAStartStay has what nobody should wait for.
func TestSomeErrorsOfAStartStay(t *testing.T) {
	r := realserver.StartRedis(t)
	r.Do(t, "ACL", "SETUSER", "carillon", "on", ">right", "~*", "&*", "+@all")
	p := realserver.StartPostgres(t, realserver.Volatile()...)
	newer := p.Database(t)
	if s, err := server.New(server.Config{Store: newer, GRPC: "127.0.0.1:0", HTTP: server.None, Name: "node",
		DrainGrace: -1}); err != nil {
		t.Fatal(err)
	} else {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ended); err != nil {
			t.Fatal(err)
		}
	}
	p.Exec(t, "test_1", "UPDATE carillon_meta SET format = 1000")
	for what, url := range map[string]string{
		"wrong password of Redis":  "redis://carillon:wrong@" + r.Address(),
		"no such number in Redis":  "redis://" + r.Address() + "/99",
		"no such database":         p.URL("nowhere"),
		"a store of later version": newer,
	} {
		_, err := server.Await(t.Context(), server.Config{Store: url, GRPC: "127.0.0.1:0",
			HTTP: server.None, Name: "node"})
		if err == nil || errors.Is(err, store.ErrAway) || errors.Is(err, server.ErrNotStarted) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
