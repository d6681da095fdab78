package server

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestAStoreInTroubleIsNotReady(t *testing.T) {
	n := &Node{trouble: &trouble{log: slog.New(slog.DiscardHandler)}}
	events := n.trouble.pebbleEvents()
	events.Stall("memtables are full")
	events.Stall("")
	events.Background(errors.New("a compaction failed"))
	events.Log("hello")
	if err := n.trouble.Err(); err != nil {
		t.Errorf("that is no trouble: %v", err)
	}
	events.Failed(errors.New("the disk is full"))
	if err := n.Ready(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("ready: %v", err)
	}
	events.Recovered()
	if err := n.trouble.Err(); err != nil {
		t.Errorf("it has recovered: %v", err)
	}
}

func TestTheLogHasNoPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"pebble:/var/lib/carillon":                     "pebble:/var/lib/carillon",
		"postgres://u:secret@db:5432/jobs?sslmode=off": "postgres://u@db:5432/jobs",
		"postgres://u:secret@a:1,b:2/jobs":             "postgres://u@a:1,b:2/jobs",
		"postgres://u:12?secret@db/jobs":               "postgres:",
		"postgres://u:12/sec@ret@db/jobs":              "postgres://u@db/jobs",
		"postgresql://db/jobs?password=secret":         "postgresql://db/jobs",
		"postgres://u:sec%ret@db/jobs":                 "postgres://u@db/jobs",
		"pebble:/data/a@b":                             "pebble:/data/a@b",
		"redis://h:1,h:2/0":                            "redis://h:1,h:2/0",
		"rediss://user:pass@h:1,h:2?prefix=p":          "rediss://user@h:1,h:2?prefix=p",
		"redis://:p@ss@h":                              "redis://h",
	} {
		if got := storeText(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
