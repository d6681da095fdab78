package redisbroker

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

var several = flag.Bool("several-servers", false, "kill servers of a cluster, too, which takes longer")

// ledger is what became of messages, by stream.
type ledger map[string]map[string]error

// publish publishes 20 messages to a stream.
func (l ledger) publish(t *testing.T, c *Client, stream string) (acknowledged bool) {
	t.Helper()
	if l[stream] == nil {
		l[stream] = map[string]error{}
	}
	var ms []broker.Message
	for range 20 {
		ms = append(ms, message(fmt.Sprint(len(l[stream])+len(ms)), stream, 10))
	}
	acknowledged = true
	for i, err := range publish(t, c, ms...) {
		l[stream][ms[i].ID] = err
		acknowledged = acknowledged && err == nil
	}
	return acknowledged
}

// until publishes to a stream until everything is acknowledged.
func (l ledger) until(t *testing.T, c *Client, stream string) {
	t.Helper()
	for !l.publish(t, c, stream) {
		if t.Context().Err() != nil {
			t.Fatal("nothing is acknowledged")
		}
	}
}

// check compares the ledger with what is there: nothing is lost, or there twice, and nothing was denied.
func (l ledger) check(t *testing.T, there func(stream string) []string) {
	t.Helper()
	for _, stream := range slices.Sorted(maps.Keys(l)) {
		have, acknowledged, unsent := map[string]bool{}, 0, 0
		for _, id := range there(stream) {
			if have[id] {
				t.Errorf("%s: %s is there twice", stream, id)
			}
			have[id] = true
		}
		for id, err := range l[stream] {
			switch {
			case err == nil && !have[id]:
				t.Errorf("%s: %s was acknowledged, and is not there", stream, id)
			case errors.Is(err, broker.ErrRefused):
				t.Errorf("%s: %s: %v", stream, id, err)
			case errors.Is(err, broker.ErrUnsent):
				unsent++
				if have[id] {
					t.Errorf("%s: %s was not sent, and is there: %v", stream, id, err)
				}
			case err == nil:
				acknowledged++
			}
		}
		t.Logf("%s: %d messages, %d acknowledged, %d unsent, %d are there", stream, len(l[stream]), acknowledged, unsent,
			len(have))
	}
}

// TestACluster of three primaries: the slot of a stream moves while entries are added to it (ASK, then MOVED), and
// a primary is killed, which holds up its own streams only.
func TestACluster(t *testing.T) {
	if !*several {
		t.Skip("only with -several-servers: a cluster takes seconds to form")
	}
	servers := realserver.StartRedisCluster(t, 3, "cluster-require-full-coverage=no")
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.Address())
	}
	slotOf := func(stream string) int {
		n, err := strconv.Atoi(servers[0].Do(t, "CLUSTER", "KEYSLOT", stream))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	streams := make([]string, len(servers)) // one of each server
	for n := 0; slices.Contains(streams, ""); n++ {
		name := fmt.Sprint("runs", n)
		streams[slotOf(name)*len(servers)/16384] = name
	}
	c, l := newClient(t, Options{Addresses: addresses}), ledger{}
	for _, s := range streams {
		if !l.publish(t, c, s) {
			t.Fatal(l[s])
		}
	}
	moved, slot := streams[0], strconv.Itoa(slotOf(streams[0]))
	ids := []string{servers[0].Do(t, "CLUSTER", "MYID"), servers[1].Do(t, "CLUSTER", "MYID")}
	step := func(server int, command ...string) {
		servers[server].Do(t, command...)
		for range 5 {
			if !l.publish(t, c, moved) {
				t.Errorf("%v: not everything is acknowledged", command)
			}
		}
	}
	step(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
	step(0, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
	step(0, "MIGRATE", "127.0.0.1", strconv.Itoa(servers[1].Port), moved, "0", "5000") // from now on: ASK
	step(1, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
	step(0, "CLUSTER", "SETSLOT", slot, "NODE", ids[1]) // from now on: MOVED
	servers[2].Crash(t)
	for range 20 {
		if l.publish(t, c, streams[2]) {
			t.Error("a server that is away has acknowledged")
		}
	}
	l.until(t, c, streams[1]) // it may be in the answer that tells of the dead one
	for range 20 {
		for _, s := range []string{moved, streams[1]} {
			if !l.publish(t, c, s) {
				t.Errorf("%s is held up", s)
			}
		}
	}
	servers[2].Up(t)
	for _, s := range streams {
		l.until(t, c, s)
	}
	l.check(t, func(stream string) []string {
		server := slices.Index(streams, stream)
		if stream == moved {
			server = 1
		}
		return stored(t, asker(t, servers[server]), stream)
	})
}

// TestASentinel is no server for entries: the runs wait, since the address is what is wrong.
func TestASentinel(t *testing.T) {
	sentinel := realserver.StartSentinel(t, "primary", realserver.StartRedis(t))
	c := newClient(t, Options{Addresses: []string{sentinel.Address()}})
	if err := publish(t, c, message("0", "runs", 1))[0]; !errors.Is(err, broker.ErrUnsent) ||
		!strings.Contains(err.Error(), "Sentinel") {
		t.Error(err)
	}
}
