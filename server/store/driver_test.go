package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// errOpened is the result of opening a store of the test's driver.
var errOpened = errors.New("opened")

func TestMain(m *testing.M) {
	store.Register(store.Driver{
		Schemes: []string{"test", "tests"}, Form: `"test:NAME"`,
		Check: func(string) error { return errors.New("checked") },
		Open: func(_ context.Context, url string, o store.Options) (store.Store, error) {
			o.Log.Warn("never nil")
			if url != "test:a" || o.Partitions != 3 {
				return nil, errors.New("other arguments")
			}
			return nil, errOpened
		},
	})
	m.Run()
}

func TestAURLIsOpenedByTheDriverOfItsScheme(t *testing.T) {
	if _, err := store.Open(t.Context(), "test:a",
		store.Options{Partitions: 3, Now: time.Now}); !errors.Is(err, errOpened) {
		t.Error(err)
	}
	if err := store.CheckURL("tests:b"); err == nil || err.Error() != "checked" {
		t.Error(err)
	}
	if got := store.Redact("test:secret"); got != "test:secret" {
		t.Errorf("a URL without secrets is shown as %q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("two drivers have one scheme")
		}
	}()
	store.Register(store.Driver{Schemes: []string{"test"}})
}

// TestURLsWithoutADriver: the error helps, and repeats nothing that may be a password.
func TestURLsWithoutADriver(t *testing.T) {
	const pkg = "github.com/carillonhq/carillon/server/store/"
	for url, want := range map[string]string{
		"":                          `none is given; there are "test:NAME"`,
		"test":                      "no scheme",
		"./data":                    "no scheme",
		"host=db password=hunter2":  "no scheme",
		"host=db password=hunter:2": "no scheme",
		"user:hunter2@db/carillon":  "no scheme",
		"mongodb://user:hunter@db":  `"mongodb" is not supported; there are "test:NAME"`,
		"pebble:hunter":             `add import _ "` + pkg + `pebble"`,
		"memory:":                   `add import _ "` + pkg + `memory"`,
		"postgresql://u:hunter@db":  `add import _ "` + pkg + `postgres"`,
		"postgres://u:hunter@db":    `add import _ "` + pkg + `postgres"`,
		"redis://:hunter@db":        `add import _ "` + pkg + `redis"`,
		"rediss://:hunter@db":       `add import _ "` + pkg + `redis"`,
		"etcd://u:hunter@db":        `add import _ "` + pkg + `etcd"`,
		"etcds://u:hunter@db":       `add import _ "` + pkg + `etcd"`,
		"etcd-embed:hunter":         `add import _ "` + pkg + `etcdembed"`,
		"cassandra://u:hunter@db":   `add import _ "` + pkg + `cassandra"`,
		"cassandras://u:hunter@db":  `add import _ "` + pkg + `cassandra"`,
	} {
		_, err := store.Open(t.Context(), url, store.Options{})
		checked := store.CheckURL(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") ||
			checked == nil || checked.Error() != err.Error() {
			t.Errorf("%q: %v, and %v when it is checked, want %q", url, err, checked, want)
		}
		if got := store.Redact(url); strings.Contains(got, "hunter") {
			t.Errorf("%q is shown as %q", url, got)
		}
	}
}

func TestRedactURLRemovesPasswords(t *testing.T) {
	for _, c := range []struct {
		url  string
		keep bool // the parameters
		want string
	}{
		{"postgres://u:secret@db:5432/jobs?sslmode=off", false, "postgres://u@db:5432/jobs"},
		{"postgres://u:secret@a:1,b:2/jobs", false, "postgres://u@a:1,b:2/jobs"},
		{"postgres://u:12?secret@db/jobs", false, "postgres:"},
		{"postgres://u:12/sec@ret@db/jobs", false, "postgres://u@db/jobs"},
		{"postgresql://db/jobs?password=secret", false, "postgresql://db/jobs"},
		{"postgres://u:sec%ret@db/jobs", false, "postgres://u@db/jobs"},
		{"redis://h:1,h:2/0", true, "redis://h:1,h:2/0"},
		{"rediss://user:pass@h:1,h:2?prefix=p", true, "rediss://user@h:1,h:2?prefix=p"},
		{"redis://:p@ss@h", true, "redis://h"},
	} {
		if got := store.RedactURL(c.url, c.keep); got != c.want {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
	}
}

func TestCheckPartitions(t *testing.T) {
	for n, ok := range map[int]bool{-1: false, 0: true, 1: true, store.MaxPartitions: true,
		store.MaxPartitions + 1: false} {
		if err := store.CheckPartitions(n); (err == nil) != ok {
			t.Errorf("%d: %v", n, err)
		}
	}
}
