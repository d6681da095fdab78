package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/memory"
	"github.com/carillonhq/carillon/store/pebble"
	"github.com/carillonhq/carillon/store/postgres"
	"github.com/carillonhq/carillon/store/redis"
)

// supportedStores is what the error for a wrong URL lists.
const supportedStores = `"pebble:DIR" (a folder of this machine), "postgres://…" (a PostgreSQL database), ` +
	`"redis://…" (Redis, or a Redis Cluster) and "memory:" (nothing is kept)`

// maxPartitions is how many partitions a store can have.
const maxPartitions = pebble.MaxPartitions

// parseStore cuts a store's URL into its scheme and the rest.
func parseStore(text string) (scheme, rest string, err error) {
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case text == "":
		return "", "", fmt.Errorf("store: none is given; there are %s", supportedStores)
	case !ok:
		return "", "", fmt.Errorf("store: the URL has no scheme; there are %s", supportedStores)
	case scheme == "pebble" && rest == "":
		return "", "", fmt.Errorf("store: %q names no folder; write pebble:DIR", text)
	case scheme == "memory" && rest != "":
		return "", "", errors.New("store: the URL says too much: it is \"memory:\"")
	case scheme == "redis" || scheme == "rediss":
		_, err := redis.ParseURL(text)
		return "redis", rest, err
	case shared(scheme):
		return "postgres", rest, postgres.CheckURL(text)
	case scheme != "pebble" && scheme != "memory" && !isScheme(scheme, rest): // it may be a password, and is not repeated
		return "", "", fmt.Errorf("store: the URL has no scheme; there are %s", supportedStores)
	case scheme != "pebble" && scheme != "memory":
		return "", "", fmt.Errorf("store: %q is not supported; there are %s", scheme, supportedStores)
	}
	return scheme, rest, nil
}

// isScheme reports whether the text before the first colon is certainly a scheme: in "host=db password=a:b"
// and in "user:password@host/db" it is not.
func isScheme(text, rest string) bool {
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(text) <= 20 && (strings.HasPrefix(rest, "//") || !strings.ContainsAny(rest, "@="))
}

// shared reports whether several nodes may open the store of a scheme at the same time.
func shared(scheme string) bool {
	switch scheme {
	case "postgres", "postgresql", "redis", "rediss":
		return true
	}
	return false
}

// storeText returns the URL of a store for the log: user and addresses, without the password, and for
// PostgreSQL without parameters, which may hold a password, too.
func storeText(text string) string {
	scheme, rest, _ := strings.Cut(text, ":")
	if !shared(scheme) {
		return text
	}
	rest = strings.TrimPrefix(rest, "//")
	at, query := strings.LastIndexByte(rest, '@'), strings.IndexByte(rest, '?')
	if query >= 0 && query < at { // it cannot be told which of them the @ is in
		return scheme + ":"
	}
	user, _, _ := strings.Cut(rest[:max(at, 0)], ":")
	rest = rest[at+1:]
	if !strings.HasPrefix(scheme, "redis") { // parameters of Redis are no secrets
		rest, _, _ = strings.Cut(rest, "?")
	}
	if user != "" {
		rest = user + "@" + rest
	}
	return scheme + "://" + rest
}

// openStore opens the store of a URL. Its events go to t.
func openStore(ctx context.Context, c Config, t *trouble) (store.Store, error) {
	scheme, rest, err := parseStore(c.Store)
	if err != nil {
		return nil, err
	}
	switch scheme {
	case "pebble":
		o := pebble.Options{Partitions: c.Partitions, Now: c.Now, Events: t.pebbleEvents()}
		if c.hooks.tune != nil {
			c.hooks.tune(&o)
		}
		return pebble.Open(rest, o)
	case "postgres":
		events := postgres.Events{Failed: t.failed, Recovered: t.recovered, Warn: t.warn}
		return postgres.Open(ctx, c.Store, postgres.Options{Partitions: c.Partitions, Events: events})
	case "redis":
		o, err := redis.ParseURL(c.Store)
		if err != nil {
			return nil, err
		}
		o.Partitions, o.Events = c.Partitions, redis.Events{Failed: t.failed, Recovered: t.recovered, Warn: t.warn}
		return redis.Open(ctx, o)
	default:
		return memory.New(memory.Options{Partitions: c.Partitions, Now: c.Now}), nil
	}
}

// trouble records why the store cannot write at present, for the log and for readiness.
type trouble struct {
	log *slog.Logger

	mu    sync.Mutex
	err   error
	since time.Time
	lost  []pebble.Loss
}

// Damage returns what the store was found to have lost since the node started; nil if nothing.
func (t *trouble) Damage() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lost) == 0 {
		return nil
	}
	return fmt.Errorf("the store is damaged, what is left is served: %s; stop the node, look with carillon store check, and restore a backup",
		t.lost[0])
}

// DamagedTables returns how many tables are damaged.
func (t *trouble) DamagedTables() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lost)
}

func (t *trouble) damaged(l pebble.Loss) {
	t.mu.Lock()
	known := slices.ContainsFunc(t.lost, func(old pebble.Loss) bool { return old.Table == l.Table })
	if !known {
		t.lost = append(t.lost, l)
	}
	t.mu.Unlock()
	if !known {
		t.log.Error("a table of the store is damaged: what stands in it is lost, what is left is served; carillon store check names it",
			"table", l.Table, "partitions", l.Partitions, "error", l.Cause)
	}
}

// Err returns why the store cannot write; nil if it can.
func (t *trouble) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return nil
	}
	return fmt.Errorf("the store has not been able to write since %s: %w", t.since.UTC().Format(time.RFC3339), t.err)
}

func (t *trouble) set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.since = time.Now()
	}
	t.err = err
}

func (t *trouble) failed(err error) {
	t.set(err)
	t.log.Error("the store cannot write", "error", err)
}

func (t *trouble) warn(reason string) {
	t.log.Warn("the store may lose what was acknowledged", "reason", reason)
}

func (t *trouble) recovered() {
	t.set(nil)
	t.log.Info("the store writes again")
}

func (t *trouble) pebbleEvents() pebble.Events {
	return pebble.Events{
		Failed: t.failed, Recovered: t.recovered,
		Damaged:    t.damaged,
		Background: func(err error) { t.log.Error("the store's housekeeping failed", "error", err) },
		Stall: func(reason string) {
			if reason != "" {
				t.log.Warn("the store waits for the disk", "reason", reason)
			}
		},
		Exposed: func(dir string, mode fs.FileMode) {
			t.log.Warn("others may look into the store's folder, which holds payloads and the key of tokens: chmod 700 it",
				"folder", dir, "mode", fmt.Sprintf("%#o", mode))
		},
		Log: func(text string) { t.log.Debug("pebble", "text", text) },
	}
}
