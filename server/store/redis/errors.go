package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/store"
)

// before are the answers that Redis gives instead of beginning a script. Any other error of a script may have
// left a batch half done, though only a key of another type than ours can cause one.
var before = []string{"OOM", "LOADING", "BUSY", "READONLY", "MISCONF", "MASTERDOWN", "NOREPLICAS",
	"CLUSTERDOWN", "TRYAGAIN", "MOVED",
	"ASK", "CROSSSLOT", "NOAUTH", "WRONGPASS", "NOPERM", "NOSCRIPT", "EXECABORT", "UNKILLABLE"}

// answerOf is the error that a server has answered, if it is one, however it is wrapped.
func answerOf(err error) (*rueidis.RedisError, bool) {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	return answer, ok && answer != rueidis.Nil
}

// notBegun reports whether the error says that the command was certainly not executed.
func notBegun(err error) bool {
	if answer, ok := answerOf(err); ok {
		code, _, _ := strings.Cut(answer.Error(), " ")
		return slices.Contains(before, code)
	}
	var dial *net.OpError
	return errors.Is(err, rueidis.ErrNoSlot) || errors.As(err, &dial) && dial.Op == "dial"
}

// broken reports whether a connection ended before an answer came: another one may do better at once. One
// that was given up because no answer came in time is none of those.
func broken(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// failure is the error of a call that is not an Apply, or of an Apply that certainly changed nothing.
func failure(err error) error { return fmt.Errorf("store: redis: %w", err) }

// applyFailure says how an Apply ended that ended with an error.
func applyFailure(err error) error {
	if noRoom(err) {
		return fmt.Errorf("%w: redis: %w", store.ErrFull, err)
	}
	if notBegun(err) {
		return failure(err)
	}
	return fmt.Errorf("%w: redis: %w", store.ErrUnknown, err)
}

// errLoading says that a server reads what it has kept.
var errLoading = errors.New("it is starting: its data are being read")

// passing are the answers of servers that may take commands later, whoever asks.
var passing = []string{"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"}

// away reports whether an error of a start may pass: the server cannot be reached, or is not ready to be
// used. What it answers otherwise (another password, no such database) is for people.
func away(err error) bool {
	if answer, ok := answerOf(err); ok {
		code, _, _ := strings.Cut(answer.Error(), " ")
		return slices.Contains(passing, code)
	}
	// a name that is there when the server is
	if _, unresolved := errors.AsType[*net.DNSError](err); unresolved {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return broken(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errLoading)
}

// noRoom reports whether the server has refused a write since its memory or its disk is full.
func noRoom(err error) bool {
	answer, ok := answerOf(err)
	return ok && (strings.HasPrefix(answer.Error(), "OOM ") || strings.HasPrefix(answer.Error(), "MISCONF "))
}
