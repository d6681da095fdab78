package carillon

import (
	"context"
	"time"
)

// Ingests shows what the nodes of a cluster take from message brokers.
type Ingests interface {
	// ListIngests returns the topics that the nodes take commands from, over all living nodes.
	ListIngests(ctx context.Context, q IngestQuery) (IngestPage, error)
}

// IngestQuery selects topics of ingests, in the order of their namespaces, ingests and names.
type IngestQuery struct {
	Namespace string // that their commands are for; empty: of all namespaces
	PageSize  int    // default 100, at most MaxBatch
	PageToken string
}

// Validate returns an error about the first wrong field. The page token is checked by the node that made it.
func (q *IngestQuery) Validate() error { return checkQueried(q.Namespace, q.PageSize) }

// IngestPage is one page; an empty NextPageToken marks the last one.
type IngestPage struct {
	Ingests       []Ingest
	NextPageToken string
	// Unheard are the nodes, by id, that have not answered in time, or cannot, being of an older version: what
	// they know is not in the page.
	Unheard []string
}

// Ingest is a topic that an ingest takes commands from. An ingest of several topics has one for each.
type Ingest struct {
	Namespace  string // that its commands are for
	Name       string // of the ingest
	Broker     string // the broker's name
	Kind       string // the broker's: "kafka", "amqp", "nats" or "redis"
	Topic      string // the topic, queue or stream
	Priority   int    // its place among the topics of the ingest, from 1
	Group      string // of the consumers that share its messages; empty for AMQP
	DeadLetter string // where messages go that are no command that can be done, BROKER/NAME
	// IngestState is that of all readers: of Kafka the sum of their lags, of Redis the largest, of AMQP and NATS
	// the largest without what that reader has in flight, and what all have in flight. The lags of those that
	// are not connected count only if none is.
	IngestState
	Readers []IngestReader // by node
}

// IngestReader is a node that takes messages of a topic, or tries to.
type IngestReader struct {
	Node  string
	Since time.Time // when it began, after its start or a change of the ingest
	// Connected: messages can be taken. Without it and without an error the node has not heard of the broker
	// yet.
	Connected  bool
	Error      string // why no messages can be taken
	ErrorSince time.Time
	// Retrying is why messages that were received are tried again: their commands cannot be done at present,
	// or the dead-letter topic takes none.
	Retrying string
	IngestState
}

// IngestState is how far the messages of a topic are.
type IngestState struct {
	// Lag is how many messages nobody of the group has acknowledged, valid only if LagKnown. Of Kafka, it is
	// that of the reader's own partitions; of AMQP and NATS it is without what other readers have.
	Lag         int64
	LagKnown    bool
	InFlight    int       // messages that were received and are not acknowledged
	LastMessage time.Time // when the last message was received; zero: none was
	Counts      IngestCounts
}

// IngestCounts are messages by what became of them, since their readers began.
type IngestCounts struct {
	Done     int64 // their changes are durable
	Repeated int64 // their changes had been made before
	Dead     int64 // they are in the dead-letter topic
	Retried  int64 // attempts after which a message was tried again
}
