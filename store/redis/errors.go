package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/store"
)

// before are the answers that Redis gives instead of beginning a script. Any other error of a script may have left a batch
// half done, though only a key of another type than ours can cause one.
var before = []string{"OOM", "LOADING", "BUSY", "READONLY", "MISCONF", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MOVED",
	"ASK", "CROSSSLOT", "NOAUTH", "WRONGPASS", "NOPERM", "NOSCRIPT", "EXECABORT", "UNKILLABLE"}

// notBegun reports whether the error says that the command was certainly not executed.
func notBegun(err error) bool {
	if answer, ok := rueidis.IsRedisErr(err); ok {
		code, _, _ := strings.Cut(answer.Error(), " ")
		return slices.Contains(before, code)
	}
	var dial *net.OpError
	return errors.Is(err, rueidis.ErrNoSlot) || errors.As(err, &dial) && dial.Op == "dial"
}

// broken reports whether a connection ended before an answer came: another one may do better at once. One that was given up
// because no answer came in time is none of those.
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
	if notBegun(err) {
		return failure(err)
	}
	return fmt.Errorf("%w: redis: %w", store.ErrUnknown, err)
}
