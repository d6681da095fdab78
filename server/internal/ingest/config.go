package ingest

import (
	"context"
	"log/slog"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/message"
)

// Config is one ingest, complete and valid.
type Config struct {
	Name       string
	Broker     string // its name, for people
	Settings   broker.Settings
	Topics     []string // the earlier before the later
	Group      string   // "" for AMQP
	Namespace  string
	DeadLetter carillon.Target // of the broker's kind
	InFlight   int             // the most messages under way
	Remember   time.Duration   // how long events are remembered; at most [message.MaxKeepFor]
	Print      string          // another one when anything else is
}

// Doer has commands done: it is a node.
type Doer interface {
	// Do has a command done, and returns when that is durable; before says that it was done before.
	Do(ctx context.Context, c message.Command) (before bool, err error)
	// DoAll has commands of one partition done together, at most [message.MaxCommands], and returns what became
	// of each, when that is durable. What is left open, or not mentioned, is for Do. An error says that none of
	// them was done, or that this is not known.
	DoAll(ctx context.Context, partition int, all []message.Command) ([]message.Decision, error)
	// PartitionOf returns the partition of a job.
	PartitionOf(k carillon.Key) int
}

// Options are what all ingests of a node have in common.
type Options struct {
	To      Doer
	Sources map[string]broker.NewSource // by kind of broker
	Clients map[string]broker.New       // for dead letters
	Log     *slog.Logger
	// Count counts a message by its outcome.
	Count func(ingest, topic string, o Outcome)
}

// Outcome is what became of a message.
type Outcome string

// The outcomes of messages.
const (
	Done     Outcome = "done"     // its change is durable
	Repeated Outcome = "repeated" // its change was made before
	Dead     Outcome = "dead"     // it is in the dead-letter topic
	Retried  Outcome = "retried"  // it could not be done, and is tried again
)

// Outcomes are all of them.
var Outcomes = []Outcome{Done, Repeated, Dead, Retried}
