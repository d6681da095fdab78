package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The mechanisms of SASL.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Options are what a client needs.
type Options struct {
	// Addresses are of some brokers of the cluster, host:port; the others are found by them.
	Addresses []string
	// TLS is how the connections are secured; nil: not at all. An empty ServerName is the broker's host.
	TLS *tls.Config
	// Mechanism is how the client logs in: one of [Plain], [ScramSHA256] and [ScramSHA512]; "": not at all.
	Mechanism      string
	User, Password string // for Mechanism

	// MaxMessage is how large a record may be with its key and its headers, in bytes, and a batch of them.
	// The default is 1,000,012, of which a broker takes a little more by its own default.
	MaxMessage int
	// ConnectWithin is how long a connection to one broker may take to be made. Default 3 s.
	ConnectWithin time.Duration
	// SendWithin is how long the client tries to send, before it says that it could not, and how long a
	// broker may wait for its replicas. It is at least 1 s. Default 10 s.
	SendWithin time.Duration
	// AnswerWithin is how long a record that was sent may stay unanswered. It is at least SendWithin. Default
	// 1 min.
	AnswerWithin time.Duration
}

// The defaults of [Options], and bounds.
const (
	defaultMaxMessage    = 1_000_012
	leastMaxMessage      = 1 << 10
	mostMaxMessage       = 64 << 20
	defaultConnectWithin = 3 * time.Second
	defaultSendWithin    = 10 * time.Second
	defaultAnswerWithin  = time.Minute
	leastWithin          = time.Second
	mostWithin           = time.Hour
)

// fill puts the defaults in place, and checks what was given.
func (o *Options) fill() error {
	setDefault(&o.MaxMessage, defaultMaxMessage)
	setDefault(&o.ConnectWithin, defaultConnectWithin)
	setDefault(&o.SendWithin, defaultSendWithin)
	setDefault(&o.AnswerWithin, max(defaultAnswerWithin, o.SendWithin))
	if len(o.Addresses) == 0 {
		return errors.New("addresses: none is given; write for example kafka-1.example:9092")
	}
	for _, a := range o.Addresses {
		if err := checkAddress(a); err != nil {
			return fmt.Errorf("addresses: %w", err)
		}
	}
	switch {
	case o.MaxMessage < leastMaxMessage || o.MaxMessage > mostMaxMessage:
		return fmt.Errorf("max message: %d is not between %d and %d bytes", o.MaxMessage, leastMaxMessage,
			mostMaxMessage)
	case o.ConnectWithin < 0 || o.ConnectWithin > mostWithin:
		return fmt.Errorf("connect within: %v is not between 0 and %v", o.ConnectWithin, mostWithin)
	case o.SendWithin < leastWithin || o.SendWithin > mostWithin:
		return fmt.Errorf("send within: %v is not between %v and %v", o.SendWithin, leastWithin, mostWithin)
	case o.AnswerWithin < o.SendWithin || o.AnswerWithin > mostWithin:
		return fmt.Errorf("answer within: %v is not between send within, which is %v, and %v", o.AnswerWithin,
			o.SendWithin, mostWithin)
	}
	_, err := o.login()
	return err
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func checkAddress(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil || host == "" {
		return fmt.Errorf("%q is not host:port; write for example kafka-1.example:9092", a)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the port of %q is not between 1 and 65535", a)
	}
	return nil
}

// login is how the client logs in; nil: not at all.
func (o *Options) login() (sasl.Mechanism, error) {
	given := o.User != "" || o.Password != ""
	switch {
	case o.Mechanism == "" && given:
		return nil, fmt.Errorf("mechanism: it is missing, with a user or a password; give %s, %s or %s", Plain,
			ScramSHA256, ScramSHA512)
	case o.Mechanism == "":
		return nil, nil //nolint:nilnil // there is none
	case o.User == "":
		return nil, fmt.Errorf("user: it is missing; %s needs one", o.Mechanism)
	case o.Password == "":
		return nil, fmt.Errorf("password: it is missing; %s needs one", o.Mechanism)
	}
	scrammed := scram.Auth{User: o.User, Pass: o.Password}
	switch o.Mechanism {
	case Plain:
		return plain.Auth{User: o.User, Pass: o.Password}.AsMechanism(), nil
	case ScramSHA256:
		return scrammed.AsSha256Mechanism(), nil
	case ScramSHA512:
		return scrammed.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("mechanism: %q is none of %s, %s and %s", o.Mechanism, Plain, ScramSHA256, ScramSHA512)
}

// The first wait before franz-go tries again, and the longest. All topics of a broker wait meanwhile.
const (
	firstPause = 20 * time.Millisecond
	mostPause  = time.Second
)

func pause(failures int) time.Duration {
	d := firstPause
	for range failures - 1 {
		if d *= 2; d >= mostPause {
			return mostPause
		}
	}
	return d
}

const (
	// linger holds records back until a whole lot has been handed over: franz-go sends them at once then.
	linger = 5 * time.Millisecond
	// leastOverhead is the least that franz-go takes.
	leastOverhead = 100 * time.Millisecond
	// topicAge is how soon what is known of a topic is asked for again where it may have changed.
	topicAge = 250 * time.Millisecond
	// topicTries is how often a topic may be unknown: a new one is, to some brokers, for a moment.
	topicTries = 5
	// buffered is more than all lanes together hand over: a lot each, of what the callers have in flight.
	buffered = 1 << 30
)

// settings are franz-go's.
func (o *Options) settings(w *wire) ([]kgo.Opt, error) {
	login, err := o.login()
	if err != nil {
		return nil, err
	}
	return append(o.connection(login, w.dial),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.MaxBufferedRecords(buffered),
		kgo.ProducerBatchMaxBytes(int32(o.MaxMessage)),
		kgo.ProducerLinger(linger),
		kgo.UnknownTopicRetries(topicTries),
		kgo.RecordDeliveryTimeout(o.SendWithin),
		kgo.ProduceRequestTimeout(o.SendWithin),
		kgo.RetryTimeout(o.SendWithin),
	), nil
}

// dialer makes a connection; with TLS if secure is not nil.
type dialer func(ctx context.Context, network, address string, secure *tls.Config) (net.Conn, error)

// connection are those settings of franz-go's that say how it connects.
func (o *Options) connection(login sasl.Mechanism, dial dialer) []kgo.Opt {
	out := []kgo.Opt{
		kgo.SeedBrokers(o.Addresses...),
		kgo.ClientID("carillon"),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.ConnectWithin)
			defer cancel()
			return dial(ctx, network, address, o.TLS)
		}),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(topicAge),
		kgo.RetryBackoffFn(pause),
		kgo.RequestTimeoutOverhead(max(o.ConnectWithin, leastOverhead)),
	}
	if login != nil {
		out = append(out, kgo.SASL(login))
	}
	return out
}
