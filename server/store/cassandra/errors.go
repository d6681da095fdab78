package cassandra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/store"
)

// unsent reports whether a request with this error has certainly not left this node.
func unsent(err error) bool {
	return errors.Is(err, gocql.ErrNoConnections) || errors.Is(err, gocql.ErrNoConnectionsStarted) ||
		errors.Is(err, gocql.ErrSessionClosed) || errors.Is(err, gocql.ErrNoStreams)
}

// refused are the errors with which Cassandra answers instead of beginning a write. Overloaded is not one of
// them: it may come when replicas have voted and are to be told.
var refused = map[int]bool{
	gocql.ErrCodeInvalid: true, gocql.ErrCodeUnauthorized: true, gocql.ErrCodeSyntax: true,
	gocql.ErrCodeConfig: true, gocql.ErrCodeCredentials: true,
	gocql.ErrCodeProtocol: true, gocql.ErrCodeAlreadyExists: true,
}

// notBegun reports whether a conditional write with this error has certainly not been done, and will not be.
func notBegun(err error) bool {
	if unsent(err) {
		return true
	}
	if u, ok := errors.AsType[*gocql.RequestErrUnavailable](err); ok {
		// Too few replicas to vote. Too few for the other level only says that there were not enough to take
		// what may have been voted for.
		return u.Consistency == gocql.Serial || u.Consistency == gocql.LocalSerial
	}
	answer, ok := errors.AsType[gocql.RequestError](err)
	return ok && refused[answer.Code()]
}

// away reports whether an error may pass by itself: no node can be reached, or too few of them.
func away(err error) bool {
	if e, ok := errors.AsType[*noSession](err); ok {
		return e.away()
	}
	if unsent(err) || errors.Is(err, gocql.ErrTimeoutNoResponse) || errors.Is(err, gocql.ErrConnectionClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, gocql.ErrUnavailable) {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	answer, ok := errors.AsType[gocql.RequestError](err)
	return ok && mayPass[answer.Code()]
}

// mayPass are the errors with which Cassandra answers what it may do later.
var mayPass = map[int]bool{
	gocql.ErrCodeServer: true, gocql.ErrCodeUnavailable: true, gocql.ErrCodeOverloaded: true,
	gocql.ErrCodeBootstrapping: true, gocql.ErrCodeReadTimeout: true, gocql.ErrCodeReadFailure: true,
	gocql.ErrCodeWriteTimeout: true, gocql.ErrCodeWriteFailure: true, gocql.ErrCodeCASWriteUnknown: true,
}

// noTables reports whether an error says that the keyspace or a table is not there.
func noTables(err error) bool {
	answer, ok := errors.AsType[gocql.RequestError](err)
	return ok && answer.Code() == gocql.ErrCodeInvalid &&
		(strings.Contains(answer.Message(), "does not exist") ||
			strings.Contains(answer.Message(), "unconfigured table"))
}

// noSession is an error of the driver's first connection, which it gives as text only.
type noSession struct{ err error }

func (e *noSession) Error() string { return e.err.Error() }
func (e *noSession) Unwrap() error { return e.err }

// passing are words in texts of first connections that may succeed later.
var passing = []string{
	"connection refused", "no route to host", "network is unreachable", "timeout", "timed out",
	"no response", "connection reset", "EOF", "no such host", "failed to resolve", "closed waiting",
	"no connections were made", "no hosts available",
}

// away reports whether another try may succeed.
func (e *noSession) away() bool {
	return slices.ContainsFunc(passing, func(words string) bool { return strings.Contains(e.Error(), words) })
}

// failure is the error of a call that is not an Apply, or of an Apply that certainly changed nothing.
func failure(err error) error { return fmt.Errorf("store: cassandra: %w", err) }

// applyFailure says how an Apply ended that ended with an error of a call.
func applyFailure(err error) error {
	if notBegun(err) {
		return failure(err)
	}
	return unknown(err)
}

// unknown is the error of an Apply that may have changed something.
func unknown(err error) error { return fmt.Errorf("%w: cassandra: %w", store.ErrUnknown, err) }

// damaged says that a row has not what was written there.
func (r *replica) damaged(segment int, number int64, err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return fmt.Errorf("partition %d, segment %d, number %d: %w", r.number, segment, number, err)
	}
	return fmt.Errorf("%w: partition %d, segment %d, number %d: %w", store.ErrDamaged, r.number, segment, number,
		err)
}
