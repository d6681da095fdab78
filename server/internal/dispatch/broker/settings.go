package broker

import "crypto/tls"

// Settings are those of one broker, complete: files that the configuration names have been read. What does
// not concern its kind is empty.
type Settings struct {
	Kind      string      // of the targets that name it: "kafka", "amqp", "nats" or "redis"
	Addresses []string    // host:port, at least one
	TLS       *tls.Config // nil: no TLS
	User      string      // "": none
	Password  string
	// InFlight is the most messages of one queue that are not acknowledged, at least 1.
	InFlight int
	// Awaiting is the most runs of one queue, on one node, that a consumer is to complete. 0: the default.
	Awaiting int

	MaxMessage  int    // Kafka and AMQP: bytes of the largest message; 0: the client's default
	SASL        string // Kafka: "plain", "scram-sha-256" or "scram-sha-512"; "" without a user
	VirtualHost string // AMQP; "/" by default
	Core        bool   // NATS: without JetStream
	Credentials string // NATS: the content of a .creds file; "": none
	Database    int    // Redis
	MaxLength   int64  // Redis: about how many entries a stream keeps; 0: all
}

// New makes a client of one kind. An error names the setting at fault. It must not connect.
type New func(Settings) (Client, error)
