package carillon

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/secretref"
)

// Target is where runs are delivered: exactly one field is set.
//
// To add a kind: its type, targetKinds, given and check here; leased in resolve.go; its message in the
// API's protos and internal/wire/target.go; its record in server/store/codec/target.go; its queue in
// server/internal/delivery/queue.go and its traits in server/internal/partition/target.go; a consumer, which
// server/internal/dispatch/sink.go describes: a Transport if nobody connects for it, registered in
// server/internal/server/node.go; a flag in server/cmd/carillon/job_fields.go, and its text in words.go; its
// fields' ranges in tools/openapi.
type Target struct {
	Worker *WorkerTarget
	HTTP   *HTTPTarget
	Kafka  *KafkaTarget
	AMQP   *AMQPTarget
	NATS   *NATSTarget
	Redis  *RedisTarget
	Exec   *ExecTarget
	Dapr   *DaprTarget
}

// WorkerTarget delivers to a worker connected for the queue.
type WorkerTarget struct {
	Queue string
}

// HTTPTarget delivers by an HTTP request with the payload as its body.
type HTTPTarget struct {
	URL     string
	Method  string            // default POST
	Headers map[string]string // in addition to those that Carillon sets; a value may be secret://NAME
}

// KafkaTarget delivers a record. Clusters are named in the server's configuration.
type KafkaTarget struct {
	Cluster, Topic, Key string
	AwaitCompletion     bool // see [Target.AwaitsCompletion]
}

// AMQPTarget delivers a message. Brokers are named in the server's configuration.
type AMQPTarget struct {
	Broker, Exchange, RoutingKey string
	AwaitCompletion              bool // see [Target.AwaitsCompletion]
}

// NATSTarget delivers a message. Servers are named in the server's configuration.
type NATSTarget struct {
	Server, Subject string
	AwaitCompletion bool // see [Target.AwaitsCompletion]
}

// RedisTarget delivers a stream entry. Servers are named in the server's configuration.
type RedisTarget struct {
	Server, Stream  string
	AwaitCompletion bool // see [Target.AwaitsCompletion]
}

// ExecTarget runs an artifact on an agent.
type ExecTarget struct {
	Artifact   string
	SHA256     string
	Entrypoint string
	Args       []string
	Env        map[string]string
}

// WorkerQueue returns a worker target.
func WorkerQueue(queue string) Target { return Target{Worker: &WorkerTarget{Queue: queue}} }

// HTTP returns an HTTP target with the default method, POST.
func HTTP(url string) Target { return Target{HTTP: &HTTPTarget{URL: url}} }

// targetKinds are the names of the kinds in the API.
var targetKinds = [...]string{"worker", "http", "kafka", "amqp", "nats", "redis", "exec", "dapr"}

// given reports for each of targetKinds whether its field is set.
func (t Target) given() [len(targetKinds)]bool {
	return [...]bool{t.Worker != nil, t.HTTP != nil, t.Kafka != nil, t.AMQP != nil, t.NATS != nil,
		t.Redis != nil, t.Exec != nil, t.Dapr != nil}
}

// Kind returns the set target's name in the API ("worker", "http", …), or "" if none is set.
func (t Target) Kind() string {
	for i, given := range t.given() {
		if given {
			return targetKinds[i]
		}
	}
	return ""
}

// count returns how many fields are set.
func (t Target) count() (n int) {
	for _, given := range t.given() {
		if given {
			n++
		}
	}
	return n
}

// check checks a target; fields of errors begin with "target".
func (t Target) check(lim *Bounds) error {
	switch n := t.count(); {
	case n == 0:
		return invalid("target", "it is missing; give worker, http, kafka, amqp, nats or redis")
	case n > 1:
		return invalid("target", "there are %d; give exactly one", n)
	case t.Worker != nil:
		return renamedWithin("target.worker", t.Worker.Validate())
	case t.HTTP != nil:
		return t.HTTP.check(lim)
	case t.Kafka != nil:
		return t.Kafka.check()
	case t.AMQP != nil:
		return t.AMQP.check()
	case t.NATS != nil:
		return t.NATS.check()
	case t.Redis != nil:
		return t.Redis.check()
	case t.Dapr != nil:
		return t.Dapr.check()
	}
	return invalid("target."+t.Kind(), "not supported yet")
}

// methods are those that an HTTP target may use: CONNECT and TRACE are not for deliveries.
var methods = []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"}

func (t *HTTPTarget) check(lim *Bounds) error {
	if err := checkURL(t.URL, lim.URL); err != nil {
		return err
	}
	if t.Method != "" && !slices.Contains(methods, t.Method) {
		return invalid("target.http.method", "%q is not one of %s", clip(t.Method), strings.Join(methods, ", "))
	}
	return checkHeaders(t.Headers, lim.Headers)
}

// checkURL never shows the URL in an error: it may contain a password.
func checkURL(raw string, most int) error {
	const field = "target.http.url"
	if len(raw) > most {
		return tooLarge(field, len(raw), most)
	}
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return invalid(field, "it is missing")
	case err != nil || !utf8.ValidString(raw):
		return invalid(field, "it is not a URL; write for example https://example.com/run")
	case u.Scheme != "http" && u.Scheme != "https":
		return invalid(field, "it must begin with http:// or https://")
	case u.Hostname() == "":
		return invalid(field, "it has no host; write for example https://example.com/run")
	case !isPort(u.Port()) || strings.HasSuffix(u.Host, ":"):
		return invalid(field, "its port is not between 1 and 65535")
	case u.User != nil:
		return invalid(field, "it must not hold a user name or password; use a header")
	case strings.Contains(raw, "#"):
		return invalid(field, "it must not have a fragment (#…), which is never sent")
	}
	return nil
}

// isPort reports whether s is empty or a port.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || (err == nil && n > 0)
}

// Headers that a job must not set, in lower case: Carillon sets them itself, or they concern the connection.
var (
	ownHeaders        = []string{"content-type", "idempotency-key", "traceparent", "tracestate"}
	ownHeaderPrefixes = []string{"ce-", "carillon-", "webhook-"}
	connectionHeaders = []string{"connection", "content-length", "expect", "host", "keep-alive",
		"proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade"}
)

// Redacted stands for the value of a header that looks like a credential, where it is shown to callers who
// may read a job or a webhook, but not put it.
const Redacted = "[redacted]"

func checkHeaders(headers map[string]string, most int) error {
	const field = "target.http.headers"
	size := 0
	seen := make(map[string]string, len(headers))
	for _, name := range sortedKeys(headers) {
		value, lower := headers[name], strings.ToLower(name)
		size += len(name) + len(": ") + len(value) + len("\r\n")
		if err := checkHeader(field, name, lower, value); err != nil {
			return err
		}
		if other, twice := seen[lower]; twice {
			return invalid(field, "%q and %q are the same header", clip(other), clip(name))
		}
		seen[lower] = name
	}
	if size > most {
		return tooLarge(field, size, most)
	}
	return nil
}

func checkHeader(field, name, lower, value string) error {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
	switch {
	case name == "" || strings.ContainsFunc(name, isNotToken):
		return invalid(field, "%q is not a header's name", clip(name))
	case lower == "content-type":
		return invalid(field, "%q is set by Carillon; use the job's field content_type", name)
	case slices.Contains(ownHeaders, lower) || slices.ContainsFunc(ownHeaderPrefixes, hasPrefix):
		return invalid(field, "%q is set by Carillon", clip(name))
	case slices.Contains(connectionHeaders, lower):
		return invalid(field, "%q is about the connection, not the message", name)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, isControl):
		return invalid(field, "the value of %q has a character that a header cannot hold", clip(name))
	}
	if value == Redacted {
		return invalid(field, "the value of %q is %s, which stands for a credential that the reader may not see; give the value",
			clip(name), Redacted)
	}
	if _, _, err := secretref.Parse(value); err != nil {
		return invalid(field, "the value of %q: %v", clip(name), err)
	}
	return nil
}

// isNotToken reports whether r is not allowed in a header's name (RFC 9110, 5.6.2).
func isNotToken(r rune) bool {
	letterOrDigit := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// DaprTarget delivers to Dapr sidecars: those of an app, or, for an actor reminder, those of any app that
// hosts the actor type. Jobs that were put through Dapr's Scheduler protocol have it (docs/dapr.md), and
// their names begin with [DaprTarget.Prefix].
type DaprTarget struct {
	AppID          string // the app of the job; for an actor reminder, the app that asked for it
	ActorType      string // of an actor reminder; empty for a job of an app
	ActorID        string // likewise
	ConcurrencyKey string // runs that share it can have limits besides the actor type's
}

// DaprPrefix begins the names of the jobs that have a [DaprTarget], and of no others.
const DaprPrefix = "dapr/"

// Prefix returns what the names of the target's jobs begin with: dapr/app/APP/ or dapr/actor/TYPE/ID/.
func (t *DaprTarget) Prefix() string {
	if t.ActorType == "" {
		return DaprPrefix + "app/" + EscapeLevel(t.AppID) + "/"
	}
	return DaprPrefix + "actor/" + EscapeLevel(t.ActorType) + "/" + EscapeLevel(t.ActorID) + "/"
}

// Address returns where the target's runs wait for a sidecar: app/APP or actor/TYPE.
func (t *DaprTarget) Address() string {
	if t.ActorType == "" {
		return "app/" + t.AppID
	}
	return "actor/" + t.ActorType
}

// EscapeLevel writes any text as one level of a job's name, or as the beginning of one. Characters that a
// name must not have are percent-encoded, and so is a leading dot, as "." and ".." are no levels. Escaping
// keeps prefixes: a text that begins with s is escaped to one that begins with EscapeLevel(s).
func EscapeLevel(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		bad := r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) || strings.ContainsRune("%:/", r)
		if bad || (i == 0 && r == '.') {
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// checkNameOf checks a job's name against its target: names under [DaprPrefix] belong to Dapr's jobs.
func (t *DaprTarget) checkNameOf(name string) error {
	switch {
	case t == nil && strings.HasPrefix(name, DaprPrefix):
		return invalid("name",
			"%q begins with %q, which is kept for jobs with a target of kind dapr", clip(name), DaprPrefix)
	case t != nil && (!strings.HasPrefix(name, t.Prefix()) || strings.Contains(name[len(t.Prefix()):], "/")):
		return invalid("name", "%q is not %q and one level, as the target asks for", clip(name), clip(t.Prefix()))
	}
	return nil
}

func (t *DaprTarget) check() error {
	for _, f := range [...]struct{ name, value string }{
		{"app_id", t.AppID}, {"actor_type", t.ActorType}, {"actor_id", t.ActorID},
		{"concurrency_key", t.ConcurrencyKey},
	} {
		if len(f.value) > MaxName {
			return tooLarge("target.dapr."+f.name, len(f.value), MaxName)
		}
		if !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, unicode.IsControl) {
			return invalid("target.dapr."+f.name, "%q has a control character or is not UTF-8", clip(f.value))
		}
	}
	switch {
	case t.AppID == "":
		return invalid("target.dapr.app_id", "it is missing")
	case (t.ActorType == "") != (t.ActorID == ""):
		return invalid("target.dapr.actor_id",
			"an actor reminder has both actor_type and actor_id, a job of an app neither")
	}
	return nil
}

// Limits of the parts of a broker's target, in bytes. They are those of the protocols, as far as these have
// any; together with the broker's name each fits into the name of a queue.
const (
	maxBrokerName = 63
	maxTopic      = 249 // Kafka
	maxExchange   = 127 // AMQP 0-9-1 allows 255 for a short string; RabbitMQ keeps 127 for names
	maxRoutingKey = 255 // AMQP
	maxSubject    = 255
	maxStream     = 255
	maxRecordKey  = MaxName
)

// Broker returns the name of the target's broker in the servers' configuration; "" if it is no broker.
func (t Target) Broker() string {
	switch {
	case t.Kafka != nil:
		return t.Kafka.Cluster
	case t.AMQP != nil:
		return t.AMQP.Broker
	case t.NATS != nil:
		return t.NATS.Server
	case t.Redis != nil:
		return t.Redis.Server
	}
	return ""
}

// AwaitsCompletion reports whether a run goes on after the broker has acknowledged it, until a consumer
// completes it by its token, or its timeout passes. Otherwise the acknowledgement is its success.
func (t Target) AwaitsCompletion() bool {
	switch {
	case t.Kafka != nil:
		return t.Kafka.AwaitCompletion
	case t.AMQP != nil:
		return t.AMQP.AwaitCompletion
	case t.NATS != nil:
		return t.NATS.AwaitCompletion
	case t.Redis != nil:
		return t.Redis.AwaitCompletion
	}
	return false
}

// BrokerAddress returns where the target's runs wait, BROKER/NAME: a topic, an exchange, a subject or a
// stream. The default exchange of AMQP has no name; there it is BROKER//QUEUE. "" if it is no broker.
func (t Target) BrokerAddress() string {
	switch {
	case t.Kafka != nil:
		return t.Kafka.Cluster + "/" + t.Kafka.Topic
	case t.AMQP != nil && t.AMQP.Exchange == "":
		return t.AMQP.Broker + "//" + t.AMQP.RoutingKey
	case t.AMQP != nil:
		return t.AMQP.Broker + "/" + t.AMQP.Exchange
	case t.NATS != nil:
		return t.NATS.Server + "/" + t.NATS.Subject
	case t.Redis != nil:
		return t.Redis.Server + "/" + t.Redis.Stream
	}
	return ""
}

// isNotWord reports whether r is not allowed in the name of a broker, nor of a topic of Kafka.
func isNotWord(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && !('0' <= r && r <= '9') && !strings.ContainsRune("-_.", r)
}

// checkBroker returns an error about a name that no broker can have in the servers' configuration.
func checkBroker(field, name string) error {
	switch {
	case name == "":
		return invalid(field, "it is missing; give the name of one in the servers' configuration")
	case len(name) > maxBrokerName:
		return tooLarge(field, len(name), maxBrokerName)
	case strings.ContainsFunc(name, isNotWord):
		return invalid(field, "%q may hold letters, digits, -, _ and . only", clip(name))
	}
	return nil
}

// checkPart checks a part of a broker's target which may be any text that can be shown.
func checkPart(field, value string, most int) error {
	switch {
	case len(value) > most:
		return tooLarge(field, len(value), most)
	case !printable(value):
		return invalid(field, "%q has a character that is not printable", clip(value))
	}
	return nil
}

func (t *KafkaTarget) check() error {
	const topic = "target.kafka.topic"
	if err := checkBroker("target.kafka.cluster", t.Cluster); err != nil {
		return err
	}
	switch {
	case t.Topic == "":
		return invalid(topic, "it is missing")
	case len(t.Topic) > maxTopic:
		return tooLarge(topic, len(t.Topic), maxTopic)
	case t.Topic == "." || t.Topic == ".." || strings.ContainsFunc(t.Topic, isNotWord):
		return invalid(topic, "%q may hold letters, digits, -, _ and . only, and is neither . nor ..", clip(t.Topic))
	}
	return checkPart("target.kafka.key", t.Key, maxRecordKey)
}

func (t *AMQPTarget) check() error {
	const exchange, key = "target.amqp.exchange", "target.amqp.routing_key"
	if err := checkBroker("target.amqp.broker", t.Broker); err != nil {
		return err
	}
	if err := checkPart(exchange, t.Exchange, maxExchange); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(t.Exchange, "/"):
		return invalid(exchange, "%q must not begin with /", clip(t.Exchange))
	case t.Exchange == "" && t.RoutingKey == "":
		return invalid(key, "it is missing; without an exchange it is the name of a queue")
	}
	return checkPart(key, t.RoutingKey, maxRoutingKey)
}

func (t *NATSTarget) check() error {
	const field = "target.nats.subject"
	if err := checkBroker("target.nats.server", t.Server); err != nil {
		return err
	}
	if t.Subject == "" {
		return invalid(field, "it is missing")
	}
	if err := checkPart(field, t.Subject, maxSubject); err != nil {
		return err
	}
	if strings.ContainsFunc(t.Subject, unicode.IsSpace) {
		return invalid(field, "%q has a space", clip(t.Subject))
	}
	if strings.ContainsAny(t.Subject, `"\`) {
		return invalid(field, `%q may not have " or \`, clip(t.Subject))
	}
	for token := range strings.SplitSeq(t.Subject, ".") {
		switch token {
		case "":
			return invalid(field, "%q has an empty part; write for example orders.created", clip(t.Subject))
		case "*", ">":
			return invalid(field, "%q has the wildcard %s, to which nothing can be published", clip(t.Subject), token)
		}
	}
	if strings.HasPrefix(t.Subject, "$") || strings.HasPrefix(t.Subject, "_INBOX.") {
		return invalid(field, "%q belongs to the server itself", clip(t.Subject))
	}
	return nil
}

func (t *RedisTarget) check() error {
	const field = "target.redis.stream"
	if err := checkBroker("target.redis.server", t.Server); err != nil {
		return err
	}
	if t.Stream == "" {
		return invalid(field, "it is missing")
	}
	return checkPart(field, t.Stream, maxStream)
}
