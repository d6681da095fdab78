package redis_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/redis"
)

// keyOf is the name that the key that signs tokens has in a format.
var keyOf = map[int]string{1: "mackey", 2: "signing_key"}

// ofFormat is a store as programs of an older format made it, with the job "a" in partition 3.
func ofFormat(t *testing.T, r *realserver.Redis, format int) (o redis.Options, key string) {
	t.Helper()
	o = fresh(r)
	s := open(t, o)
	sh, held := own(t, s, 3)
	want(t, "a write", sh, batch("a"), store.Applied)
	if err := s.Leaser().Release(t.Context(), "node", []store.Holding{held}); err != nil {
		t.Fatal(err)
	}
	key = string(s.Meta().MACKey)
	r.Do(t, "HSET", metaOf(o), "format", strconv.Itoa(format), keyOf[format], key)
	r.Do(t, "HDEL", metaOf(o), "token_key")
	return o, key
}

func metaOf(o redis.Options) string { return "{" + o.Prefix + "}:meta" }

// TestAnOlderStoreIsTakenOver: nobody lives that knows only its format. It becomes one of this, and keeps
// what is in it.
func TestAnOlderStoreIsTakenOver(t *testing.T) {
	r := realserver.StartRedis(t)
	for format := range keyOf {
		t.Run(fmt.Sprintf("format %d", format), func(t *testing.T) { takenOver(t, r, format) })
	}
}

func takenOver(t *testing.T, r *realserver.Redis, format int) {
	o, key := ofFormat(t, r, format)
	for range 2 { // the second start changes nothing
		s := open(t, o)
		if m := s.Meta(); m.Format != store.Format() || string(m.MACKey) != key {
			t.Errorf("format %d, another key: %v", m.Format, string(m.MACKey) != key)
		}
		sh, held := own(t, s, 3)
		wantNames(t, sh, "a")
		if err := s.Leaser().Release(t.Context(), "node", []store.Holding{held}); err != nil {
			t.Fatal(err)
		}
		if format := r.Do(t, "HGET", metaOf(o), "format"); format != strconv.Itoa(store.Format()) {
			t.Errorf("the format that is written: %q", format)
		}
		// A node of that format that opened it before asks for the key by this name when it joins and claims.
		if there := r.Do(t, "HEXISTS", metaOf(o), keyOf[format]); there != "0" {
			t.Errorf("the key under the name that it had: %q", there)
		}
	}
}

// TestAnOlderStoreStaysUnderOlderNodes: a node of format 1 lives, be it of a build that wrote until when it
// does or one that also wrote for how long. The start is refused, and all is as it was.
func TestAnOlderStoreStaysUnderOlderNodes(t *testing.T) {
	r := realserver.StartRedis(t)
	o, _ := ofFormat(t, r, 1)
	members := "{" + o.Prefix + "}:members"
	till := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	for _, lives := range []string{till + ` {"address":"host:1"}`, till + ` 3600000000 7 {"address":"host:1"}`} {
		r.Do(t, "HSET", members, "n1", lives)
		_, err := redis.Open(t.Context(), o)
		if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "n1") ||
			!strings.Contains(err.Error(), "format is 1") {
			t.Errorf("under a node that lives: %v", err)
		}
		if format := r.Do(t, "HGET", metaOf(o), "format"); format != "1" {
			t.Errorf("the format has become %q", format)
		}
	}
	// Dead, and one from before the clock was set back.
	r.Do(t, "HSET", members, "n1", `1000 1000 7 {"address":"host:1"}`, "n2", till+` 1000 7 {"address":"host:2"}`)
	open(t, o)
}
