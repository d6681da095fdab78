package brokerfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch/brokertarget"
	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

// write writes files into one folder, and returns the path of the first.
func write(t *testing.T, files ...string) string {
	t.Helper()
	folder := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(folder, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, files[0])
}

const whole = `
brokers:
  events:
    kind: kafka
    addresses: [a:9092, b:9092]
    user: me
    password_file: password
    sasl: scram-sha-512
    tls: {}
    in_flight: 10
    awaiting: 20
    max_message: 2000000
  rabbit:
    kind: amqp
    addresses: ["[::1]:5672"]
  bus:
    kind: nats
    addresses: [n:4222]
    core: true
    credentials_file: creds
  cache:
    kind: redis
    addresses: [r:6379]
    database: 3
    max_length: 1000
    password_file: password
`

func TestRead(t *testing.T) {
	all, err := Read(write(t, "brokers.yaml", whole, "password", "secret \n", "creds", "c"))
	if err != nil {
		t.Fatal(err)
	}
	k, a, n, r := all.Brokers["events"], all.Brokers["rabbit"], all.Brokers["bus"], all.Brokers["cache"]
	if k.Kind != "kafka" || len(k.Addresses) != 2 || k.User != "me" || k.Password != "secret " || k.TLS == nil ||
		k.SASL != "scram-sha-512" || k.InFlight != 10 || k.Awaiting != 20 || k.MaxMessage != 2_000_000 {
		t.Errorf("%+v", k)
	}
	if a.VirtualHost != "/" || a.InFlight != brokertarget.DefaultInFlight || a.TLS != nil ||
		a.Awaiting != brokertarget.DefaultAwaiting {
		t.Errorf("%+v", a)
	}
	if !n.Core || n.Credentials != "c" || r.Database != 3 || r.MaxLength != 1000 || r.Password != "secret " {
		t.Errorf("%+v\n%+v", n, r)
	}
	if all, err := Read(write(t, "brokers.yaml", "")); err != nil || len(all.Brokers)+len(all.Ingests) != 0 {
		t.Error(all, err)
	}
}

// TestPrintsTellChanges of a broker, of the files that it names, and of nothing else.
func TestPrintsTellChanges(t *testing.T) {
	path := write(t, "brokers.yaml", whole, "password", "secret", "creds", "c")
	prints := func() map[string]string {
		t.Helper()
		all, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		return all.Prints()
	}
	before := prints()
	change := func(file, text string, changed ...string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		after := prints()
		for name := range before {
			if want := slices.Contains(changed, strings.TrimPrefix(name, "brokers.")); (before[name] != after[name]) != want {
				t.Errorf("%s: %s changed: %v", file, name, !want)
			}
		}
		before = after
	}
	change("brokers.yaml", "# a comment\n"+whole)
	change("password", "other", "events", "cache")
	change("creds", "d", "bus")
	change("brokers.yaml", strings.Replace(whole, "tls: {}", "tls: {server_name: x}", 1), "events")
	change("brokers.yaml", strings.Replace(whole, "database: 3", "database: 4", 1), "cache", "events")
}

func TestFaults(t *testing.T) {
	one := func(fields string) string { return "brokers:\n  x: {" + fields + "}" }
	const nats = "kind: nats, addresses: [a:1], "
	for text, want := range map[string]string{
		"brokerz: {}":                                              "field brokerz not found",
		"brokers: [a]":                                             "cannot unmarshal",
		"brokers:\n  x:":                                           "brokers.x.kind: it is missing",
		one("kind: mqtt"):                                          `brokers.x.kind: "mqtt" is not one of kafka, amqp, nats, redis`,
		one("kind: nats"):                                          "brokers.x.addresses: there is none",
		one(nats + "port: 1"):                                      "field port not found",
		one(nats + "sasl: x"):                                      "brokers.x.sasl: only brokers of kind kafka have it",
		one(nats + "tls: true"):                                    "brokers.x.tls: line 2: write tls: {}",
		one(nats + "tls: "):                                        "brokers.x.tls: line 2: write tls: {}",
		one(nats + "tls: {ca_file: none}"):                         "brokers.x.tls.ca_file: open ",
		one(nats + "tls: {ca: x}"):                                 "brokers.x.tls: ",
		one(nats + "tls: {cert_file: brokers.yaml}"):               "tls.cert_file: give it together with key_file",
		one(nats + "tls: {ca_file: brokers.yaml}"):                 "has no certificate in PEM",
		one(nats + "user: u"):                                      "brokers.x.password_file: it is missing",
		one(nats + "password_file: brokers.yaml"):                  "brokers.x.password_file: there is no user",
		one(nats + "user: u, password_file: none"):                 "brokers.x.password_file: open ",
		one(nats + "in_flight: 0"):                                 "brokers.x.in_flight: 0 is not between 1 and 100000",
		one(nats + "awaiting: 0"):                                  "brokers.x.awaiting: 0 is not between 1 and 10000000",
		one("kind: nats, addresses: [a]"):                          `brokers.x.addresses[0]: "a" is not host:port`,
		one("kind: kafka, addresses: [a:1], sasl: plain"):          "brokers.x.sasl: give it together with user",
		one("kind: redis, addresses: [a:1], database: -1"):         "brokers.x.database: -1 is negative",
		one("kind: redis, addresses: [a:1], max_length: -1"):       "brokers.x.max_length: -1 is negative",
		one("kind: nats, addresses: [\"me:secret@a:1\"]"):          "brokers.x.addresses[0]: it has a user or a password",
		one("kind: nats, addresses: [\"a,b:1\"]"):                  "brokers.x.addresses[0]: \"a,b:1\" is not host:port",
		one("kind: nats, addresses: [a:70000]"):                    "the port of \"a:70000\" is not between",
		one("kind: amqp, addresses: [a:1], max_message: 9"):        "brokers.x.max_message: 9 is not between 1024 and",
		one("kind: nats, addresses: [a:1], max_message: 9999"):     "brokers.x.max_message: only brokers of kind kafka, amqp",
		"brokers:\n  \"a b\": {kind: nats, addresses: [a:1]}":      "letters, digits",
		"brokers:\n  x: {kind: nats}\n  x: {kind: nats}":           "already defined",
		"brokers:\n  x: {kind: nats}\n  y: {kind: redis}":          "brokers.y.addresses: there is none",
		one("kind: nats, addresses: [a:1]") + "\n---\nbrokers: {}": "one document",
		one("kind: kafka, addresses: [a:1], user: u, password_file: brokers.yaml, sasl: md5"): `"md5" is not one of plain`,
	} {
		if _, err := Read(write(t, "brokers.yaml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tsays %v\n\tnot  %s", text, err, want)
		}
	}
	if _, err := Read(write(t, "brokers.yaml", strings.Repeat("#", yamlfile.MaxBytes+1))); err == nil {
		t.Error("a file of any size is read")
	}
}

const ingests = `
brokers:
  events: {kind: kafka, addresses: [a:9092]}
  rabbit: {kind: amqp, addresses: [a:1]}
  bus: {kind: nats, addresses: [a:1]}
  quick: {kind: nats, addresses: [a:1], core: true}
ingest:
  orders: `

func TestIngests(t *testing.T) {
	text := ingests + `
    broker: events
    topics: [urgent, jobs]
    group: carillon
    namespace: shop
    dead_letter: rejected
    in_flight: 7
    remember: 2h
  other: {broker: rabbit, topics: [q], namespace: default, dead_letter: d}
`
	path := write(t, "brokers.yaml", text)
	all, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	o, q := all.Ingests["orders"], all.Ingests["other"]
	if o.Name != "orders" || o.Settings.Kind != "kafka" || len(o.Topics) != 2 || o.Group != "carillon" ||
		o.Namespace != "shop" || o.DeadLetter.Kafka.Topic != "rejected" || o.InFlight != 7 ||
		o.Remember != 2*time.Hour {
		t.Errorf("%+v", o)
	}
	if q.DeadLetter.AMQP.RoutingKey != "d" || q.InFlight != brokertarget.DefaultInFlight ||
		q.Remember != time.Hour {
		t.Errorf("%+v", q)
	}
	for from, to := range map[string]string{"a:9092": "b:9092", "[urgent, jobs]": "[jobs, urgent]", "2h": "3h"} {
		if err := os.WriteFile(path, []byte(strings.Replace(text, from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		next, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if next.Ingests["orders"].Print == o.Print || next.Ingests["other"].Print != q.Print {
			t.Errorf("%s: the ingests are told by %s", to, next.Prints())
		}
	}
}

func TestFaultsOfIngests(t *testing.T) {
	const right = "broker: events, topics: [jobs], group: g, namespace: shop, dead_letter: d"
	for fields, want := range map[string]string{
		"": `broker: "" is not one of the brokers of this file: bus, events, quick, rabbit`,
		strings.Replace(right, "events", "none", 1):                          `broker: "none" is not one of`,
		strings.Replace(right, "events", "quick", 1):                         "broker: it has no JetStream",
		strings.Replace(right, "events", "rabbit", 1):                        "group: brokers of kind amqp have none",
		strings.Replace(right, "group: g, ", "", 1):                          "group: it is missing",
		strings.Replace(right, "[jobs]", "[]", 1):                            "topics: there is none",
		strings.Replace(right, "[jobs]", "[jobs, jobs]", 1):                  `topics[1]: "jobs" is given twice`,
		strings.Replace(right, "[jobs]", "[\"a b\"]", 1):                     "topics[0]: ",
		strings.Replace(right, "jobs", "d", 1):                               `dead_letter: "d" is one of the topics`,
		strings.Replace(right, ", dead_letter: d", "", 1):                    "dead_letter: it is missing",
		strings.Replace(right, "namespace: shop, ", "", 1):                   "namespace: it is missing",
		right + ", in_flight: 0":                                             "in_flight: 0 is not between 1 and 100000",
		right + ", remember: 1s":                                             `remember: "1s" is not a duration between 1m0s and 168h`,
		right + ", remember: ever":                                           `remember: "ever" is not a duration`,
		right + ", priority: 1":                                              "field priority not found",
		"broker: bus, topics: [a.b], group: g, namespace: n, dead_letter: d": `"a.b" is not the name of a stream`,
		"broker: bus, topics: [a], group: g.h, namespace: n, dead_letter: d": `group: "g.h" has one of`,
	} {
		_, err := Read(write(t, "brokers.yaml", ingests+"{"+fields+"}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tsays %v\n\tnot  %s", fields, err, want)
		}
	}
}
