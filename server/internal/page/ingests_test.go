//go:build unix

package page_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/redisbroker"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// taking is the configuration of a node that takes commands for the namespace shop from streams of a Redis, and of
// another one at an address where nothing is.
func taking(t *testing.T, address string) server.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "brokers.yaml")
	text := fmt.Sprintf(`brokers:
  events: {kind: redis, addresses: ["%s"]}
  gone: {kind: redis, addresses: ["127.0.0.1:1"]}
ingest:
  orders: {broker: events, topics: [urgent, jobs], group: carillon, namespace: shop, dead_letter: rejected}
  lost: {broker: gone, topics: [nothing], group: carillon, namespace: shop, dead_letter: rejected}
`, address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options := func(s broker.Settings) redisbroker.Options { return redisbroker.Options{Addresses: s.Addresses} }
	var c server.Config
	c.Name = "node-a"
	c.Targets.Brokers = server.Brokers{File: file,
		Clients: map[string]broker.New{"redis": func(s broker.Settings) (broker.Client, error) { return redisbroker.New(options(s)) }},
		Sources: map[string]broker.NewSource{"redis": func(s broker.Settings, of broker.Subscription) (broker.Source, error) {
			return redisbroker.NewSource(options(s), of)
		}}}
	c.Feeds = []server.Feed{func(to server.Intake) func(context.Context) {
		sources, clients := to.Brokers()
		set := ingest.NewSet(ingest.Options{To: to, Sources: sources, Clients: clients, Log: to.Log(),
			Count: func(string, string, ingest.Outcome) {}})
		to.ShowIngests(set.Status)
		to.Ingests(set.Apply)
		return set.Close
	}}
	return c
}

// TestIngests: what a node takes from a broker is in the answer of REST and in the room, with what became of the messages,
// and why another broker gives none; and a namespace without any says how there would be.
func TestIngests(t *testing.T) {
	b := launch(t)
	redis := realserver.StartRedis(t)
	n := start(t, taking(t, redis.Address()))
	send := func(id, subject, data string) {
		redis.Do(t, "XADD", "jobs", "*", "content-type", "application/cloudevents+json", "data", fmt.Sprintf(
			`{"specversion":"1.0","id":%q,"source":"/shop","type":"com.carillonhq.job.put","subject":%q,"data":%s}`, id, subject, data))
	}
	send("1", "reminders/1", `{"due_time":"1h","target":{"worker":{"queue":"q"}}}`)
	send("2", "reminders/2", `{"due_tim":"1h"}`)
	row := func(topic string) object {
		all, _ := n.must("GET", "/v1/ingests?namespace=shop", nil)["ingests"].([]any)
		for _, i := range all {
			if i.(object)["topic"] == topic {
				return i.(object)
			}
		}
		t.Fatalf("there is no %s among %v", topic, all)
		return nil
	}
	n.until("a message that is done and one that is dead, and no lag", func() bool {
		jobs := row("jobs")
		counts, _ := jobs["counts"].(object)
		return counts["done"] == "1" && counts["dead"] == "1" && jobs["lag"] == "0" && jobs["in_flight"] == nil
	})
	reader := row("jobs")["readers"].([]any)[0].(object)
	if reader["node"] != "node-a" || reader["connected"] != true || row("jobs")["last_message_time"] == nil ||
		row("jobs")["priority"] != float64(2) || row("jobs")["dead_letter"] != "events/rejected" {
		t.Errorf("it is read: %v", row("jobs"))
	}
	n.until("a broker that is not there", func() bool {
		r := row("nothing")["readers"].([]any)[0].(object)
		return r["connected"] == nil && r["error"] != nil && r["error_since"] != nil && row("nothing")["lag"] == nil
	})
	if others := n.must("GET", "/v1/ingests?namespace=other", nil); fmt.Sprint(others["ingests"]) != "[]" {
		t.Errorf("of another namespace: %v", others)
	}
	if status, problem := n.ask("GET", "/v1/ingests?namespace=a/b", nil); status != 400 || problem["field"] != "namespace" {
		t.Errorf("%d %v", status, problem)
	}
	p := b.open(t, n.url, 1440, 900)
	p.visit("/ingests?ns=shop")
	cells := func(topic string) string {
		return `[...[...document.querySelectorAll("main tbody tr")].find((r) => r.cells[1].textContent === ` + js(topic) + `)?.cells ?? []]`
	}
	p.wait(cells("jobs") + `.map((c) => c.textContent).filter((_, i) => i !== 6).join("|") === "orders|jobs|events (redis)|connected|0|0|1|0|1|0|node-a"`)
	p.wait(cells("nothing") + `[3]?.textContent === "not connected" && ` + cells("nothing") + `[11].textContent.includes("node-a: takes no messages")`)
	send("3", "reminders/3", `{"due_time":"1h","target":{"worker":{"queue":"q"}}}`)
	p.wait(cells("jobs") + `[7]?.textContent === "2"`) // by itself
	accessible(t, p, axeCore(t), "light")
	p.resize(390, 844)
	p.wait(`innerWidth === 390 && document.documentElement.scrollWidth <= innerWidth`)
	p.visit("/ingests")
	p.sees("main", "No commands are taken from a broker for this namespace")
	p.check()
}
