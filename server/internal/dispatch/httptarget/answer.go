package httptarget

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// judge returns what an answer means for the run, and whether the host asks for fewer requests.
func judge(resp *http.Response, now time.Time) (r delivery.Report, slow bool) {
	code := resp.StatusCode
	if code/100 == 2 {
		r.Outcome = carillon.OutcomeSuccess
		r.Async = code == http.StatusAccepted && resp.Header.Get("Carillon-Async") == "1"
		return r, false
	}
	r.Outcome = carillon.OutcomeFailure
	r.Message = fmt.Sprintf("%d %s", code, http.StatusText(code))
	switch code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		r.Permanent = true
	case http.StatusGone:
		r.Permanent, r.PauseJob = true, true
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		slow = true
	}
	if code/100 == 3 {
		r.Message += ": redirects are not followed"
	}
	if !r.Permanent {
		r.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	}
	return r, slow
}

// retryAfter parses a Retry-After header, in seconds or as a date: 0 if invalid, at most [MaxRetryAfter].
func retryAfter(s string, now time.Time) time.Duration {
	if s == "" {
		return 0
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), MaxRetryAfter)
}

// keepAlive returns how long a target keeps an idle connection open, if it says so: Keep-Alive: timeout=5,
// max=100.
func keepAlive(s string) (time.Duration, bool) {
	for parameter := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if !strings.EqualFold(name, "timeout") {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 31)
		return time.Duration(n) * time.Second, err == nil
	}
	return 0, false
}

// read returns the beginning of a body, the result of the run, and reads on, within a bound, so that the
// connection can be reused; more: it may have been longer.
func read(resp *http.Response) (kept []byte, more bool) {
	defer resp.Body.Close()
	if resp.ContentLength == 0 { // also for 101, whose body would be the bare connection
		return nil, false
	}
	kept, err := io.ReadAll(io.LimitReader(resp.Body, carillon.MaxResponse))
	if err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, MaxResponseRead-carillon.MaxResponse) // the status decided
	}
	return kept, err != nil || len(kept) == carillon.MaxResponse
}

// Reasons for which this node ends an attempt.
var (
	errTimeout   = errors.New("timeout")
	errCancelled = errors.New("cancelled")
	errStopped   = errors.New("interrupted: the node is shutting down, the target may have done it")
	errBroken    = errors.New("connection: it broke before an answer, the target may have done it")
)

// unanswered returns why there is no answer. The message tells DNS, TLS, timeouts and refused addresses
// apart.
func unanswered(err, cause error, timeout time.Duration) (message string, permanent bool) {
	switch {
	case errors.Is(cause, errTimeout):
		return fmt.Sprintf("timeout: no answer within %s, the target may have done it", schedule.Brief(timeout)), false
	case cause != nil:
		return cause.Error(), false
	}
	if errors.Is(err, errRefusedStream) {
		return errRefusedStream.Error(), false
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused.Error(), true
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "DNS: " + dns.Name + ": " + lookupFailure(dns), false
	}
	if handshake, ok := errors.AsType[*handshakeError](err); ok {
		return "TLS: " + plain(handshake.error), false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "connect: " + plain(err), false
	}
	return "connection: " + plain(err), false
}

// lookupFailure returns why a name was not found. The error itself names the resolver, which is for the
// operator only.
func lookupFailure(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "no such host"
	case err.IsTimeout:
		return "timeout"
	}
	return "the lookup failed"
}

// plain returns a network error without the addresses of both ends: the node's own, and what the target's
// name resolved to.
func plain(err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return err.Error()
	}
	inner := op.Err
	if call, ok := errors.AsType[*os.SyscallError](inner); ok {
		inner = call.Err
	}
	return op.Op + ": " + inner.Error()
}
