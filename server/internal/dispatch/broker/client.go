package broker

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
)

// Client publishes to one broker. Its methods are safe for concurrent use.
type Client interface {
	// Publish sends messages of one queue, in one request if the protocol has one for several. It calls done
	// once for each, by its index, from any goroutine, and may return before. A nil error means that the
	// broker has the message durably. Otherwise the error wraps [ErrUnsent] or [ErrRefused], or else the
	// broker may have the message. When ctx ends, what is under way may be there.
	Publish(ctx context.Context, ms []Message, done func(i int, err error))
	// Close ends what is under way, and returns when done was called for all of it.
	Close() error
}

// Errors of a [Client].
var (
	// ErrUnsent says that the broker certainly does not have the message: not one byte of it left this
	// process, since the broker is away or takes nothing at present; or the broker has answered that it could
	// not take it now, such as with too few replicas. It is sent again later, as the same attempt.
	ErrUnsent = errors.New("nothing was sent")
	// ErrRefused says that the broker refused the message, or that nothing can carry it, and that it would be
	// the same the next time: it is too large, the topic does not exist, the user may not write there.
	ErrRefused = errors.New("refused")
)

// Message is what a broker gets of an attempt.
type Message struct {
	// To is where it goes: a target of the client's kind. That of Kafka has the record's key, also if the
	// job does not say one.
	To carillon.Target
	// ID is the id of the run, for the consumer's deduplication: all attempts have the same.
	ID string
	// Once is what the broker may know messages by, to keep one of each: the id of the run. Where each attempt
	// must reach the consumer, since its answer needs the token of the newest, it is the token. Empty: ID.
	Once string
	// Headers are in no order that matters, each name once. Values are valid UTF-8.
	Headers []Header
	// ContentType is the media type of Data; "" if there is none.
	ContentType string
	Data        []byte
}

// Header is one of a message's headers.
type Header struct{ Name, Value string }
