package brokerfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/brokertarget"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/message"
)

// Limits of ingests.
const (
	MaxIngests = 100
	maxTopics  = 16
	maxGroup   = 249 // bytes

	defaultRemember = time.Hour
	leastRemember   = time.Minute
)

// ingestEntry is one ingest as the file has it.
type ingestEntry struct {
	Broker     string   `yaml:"broker"`
	Topics     []string `yaml:"topics"`
	Group      string   `yaml:"group"`
	Namespace  string   `yaml:"namespace"`
	DeadLetter string   `yaml:"dead_letter"`
	InFlight   *int     `yaml:"in_flight"`
	Remember   string   `yaml:"remember"`
}

// config returns an ingest. An error begins with the field at fault. listed are the names in the file, all
// the brokers that are right.
func (e *ingestEntry) config(name string, listed map[string]*entry,
	all map[string]brokertarget.Broker) (c ingest.Config, err error) {
	if e == nil {
		e = &ingestEntry{}
	}
	if err := checkName(name); err != nil {
		return c, fmt.Errorf("name: %w", err)
	}
	b, right := all[e.Broker]
	if _, there := listed[e.Broker]; there && !right {
		return c, fmt.Errorf("broker: %s is at fault itself", e.Broker)
	} else if !there {
		return c, fmt.Errorf("broker: %q is not one of the brokers of this file: %s", e.Broker,
			strings.Join(slices.Sorted(maps.Keys(listed)), ", "))
	}
	c = ingest.Config{Name: name, Broker: e.Broker, Settings: b.Settings, Topics: e.Topics, Group: e.Group,
		Namespace: e.Namespace, InFlight: brokertarget.DefaultInFlight, Remember: defaultRemember}
	if e.InFlight != nil {
		c.InFlight = *e.InFlight
	}
	if err := e.check(b.Kind, b.Core); err != nil {
		return c, err
	}
	if e.Remember != "" {
		if c.Remember, err = time.ParseDuration(e.Remember); err != nil || c.Remember < leastRemember ||
			c.Remember > message.MaxKeepFor {
			return c, fmt.Errorf("remember: %q is not a duration between %v and %v, such as 1h", e.Remember,
				leastRemember, message.MaxKeepFor)
		}
	}
	if c.DeadLetter, err = place(b.Kind, e.Broker, e.DeadLetter); err != nil {
		return c, fmt.Errorf("dead_letter: %w", err)
	}
	whole, err := json.Marshal(e)
	if err != nil {
		return c, err
	}
	sum := sha256.Sum256([]byte(b.Print + string(whole)))
	c.Print = hex.EncodeToString(sum[:])
	return c, nil
}

func (e *ingestEntry) check(kind string, core bool) error {
	switch {
	case core:
		return errors.New("broker: it has no JetStream (core: true), and keeps no messages")
	case len(e.Topics) == 0:
		return errors.New("topics: there is none; give a list, the most urgent first")
	case len(e.Topics) > maxTopics:
		return fmt.Errorf("topics: %d are more than %d", len(e.Topics), maxTopics)
	case e.DeadLetter == "":
		return errors.New("dead_letter: it is missing; say where messages go that cannot be understood")
	case e.InFlight != nil && (*e.InFlight < 1 || *e.InFlight > brokertarget.MaxInFlight):
		return fmt.Errorf("in_flight: %d is not between 1 and %d", *e.InFlight, brokertarget.MaxInFlight)
	case kind == "amqp" && e.Group != "":
		return errors.New("group: brokers of kind amqp have none: whoever takes from a queue shares it")
	case kind != "amqp" && e.Group == "":
		return errors.New("group: it is missing; the nodes that share the messages have the same, such as carillon")
	case len(e.Group) > maxGroup || strings.ContainsFunc(e.Group, notPlain):
		return fmt.Errorf("group: %.60q has more than %d bytes, or a space or control character", e.Group, maxGroup)
	case kind == "nats" && strings.ContainsAny(e.Group, ".*>/\\"):
		return fmt.Errorf("group: %.60q has one of . * > / \\, which the name of a consumer of NATS cannot have", e.Group)
	}
	if err := carillon.ValidateNamespace(e.Namespace); err != nil {
		return fmt.Errorf("namespace: it is missing, or wrong: %w", err)
	}
	for i, topic := range e.Topics {
		if _, err := place(kind, "x", topic); err != nil {
			return fmt.Errorf("topics[%d]: %w", i, err)
		}
		if kind == "nats" && strings.ContainsAny(topic, ".*>/\\") {
			return fmt.Errorf("topics[%d]: %.60q is not the name of a stream: it has one of . * > / \\", i, topic)
		}
		if slices.Contains(e.Topics[:i], topic) {
			return fmt.Errorf("topics[%d]: %q is given twice", i, topic)
		}
	}
	if slices.Contains(e.Topics, e.DeadLetter) {
		return fmt.Errorf("dead_letter: %q is one of the topics: what is put there would come again", e.DeadLetter)
	}
	return nil
}

func notPlain(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// checkName says whether a name may be that of a broker or an ingest: as a job's target would have it.
func checkName(name string) error {
	_, err := place("nats", name, "x")
	return err
}

// place is a topic, queue, subject or stream as the target of a job.
func place(kind, server, name string) (carillon.Target, error) {
	var t carillon.Target
	switch kind {
	case "kafka":
		t.Kafka = &carillon.KafkaTarget{Cluster: server, Topic: name}
	case "amqp":
		t.AMQP = &carillon.AMQPTarget{Broker: server, RoutingKey: name}
	case "nats":
		t.NATS = &carillon.NATSTarget{Server: server, Subject: name}
	case "redis":
		t.Redis = &carillon.RedisTarget{Server: server, Stream: name}
	}
	if name == "" {
		return t, errors.New("it is empty")
	}
	probe := carillon.Job{Name: "probe", Target: t}
	if err, wrong := errors.AsType[*carillon.Error](probe.Validate(carillon.DefaultBounds())); wrong {
		return t, errors.New(err.Message)
	}
	return t, nil
}
