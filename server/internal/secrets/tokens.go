package secrets

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/carillonhq/carillon/server/internal/dispatch/httptarget"
)

// How tokens are asked for.
const (
	fetchTimeout = 10 * time.Second
	maxToken     = 16 << 10 // bytes

	longestUse  = time.Hour       // of a token that does not say when it ends
	shortestUse = 5 * time.Second // also of one that has ended when it comes
	renewBefore = time.Minute     // its end, or a quarter of its life, which is shorter
	endMargin   = 10 * time.Second
	trusted     = time.Minute // for so long a token is not made again because a target answers 401

	firstBackoff = time.Second
	lastBackoff  = time.Minute
	lastAsked    = 5 * time.Minute // the longest Retry-After of a token endpoint that is followed
)

// tokens has the access token of one secret. There is one request for it at a time, on a goroutine of the
// set. Attempts wait for it, and after a failure all of them fail at once until it is worth asking again.
type tokens struct {
	config *clientcredentials.Config
	name   string
	set    *Set

	mu       sync.Mutex
	token    string
	made     time.Time
	renew    time.Time     // from then on another one is asked for while this one is used
	ends     time.Time     // from then on it is not used
	fetching chan struct{} // closed when the request that is under way has ended; nil: there is none
	failures int           // in a row
	failed   string        // why the last request failed
	passes   bool          // by itself, it seems
	retry    time.Time     // the next request is made then, at the earliest
}

// get returns a token that can be used now.
func (t *tokens) get(ctx context.Context) (string, error) {
	for {
		token, wait, err := t.look(time.Now())
		if wait == nil {
			return token, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return "", t.errorf(0, true, "the token endpoint does not answer")
		}
	}
}

// look returns a token, or what to wait for, or an error.
func (t *tokens) look(now time.Time) (token string, wait <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	usable := t.token != "" && now.Before(t.ends)
	if usable && now.Before(t.renew) {
		return t.token, nil, nil
	}
	may := !now.Before(t.retry)
	if t.fetching == nil && may && !t.fetch() && !usable {
		return "", nil, t.errorf(0, true, "the node is shutting down")
	}
	switch {
	case usable:
		return t.token, nil, nil
	case t.fetching == nil:
		return "", nil, t.errorf(t.retry.Sub(now), t.passes, "%s", t.failed)
	}
	return "", t.fetching, nil
}

func (t *tokens) errorf(after time.Duration, passes bool, format string, args ...any) error {
	return &httptarget.SecretError{RetryAfter: after, Passes: passes,
		Message: fmt.Sprintf("secret %s: no access token: ", t.name) + fmt.Sprintf(format, args...)}
}

// fetch begins a request for a token; mu is held. It returns false if the set is closed.
func (t *tokens) fetch() bool {
	done := make(chan struct{})
	begun := t.set.begin(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(t.set.ctx, fetchTimeout)
		defer cancel()
		token, err := t.config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.set.client))
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = context.DeadlineExceeded // oauth2 does not keep it when the time ends within an answer
		}
		t.fetched(time.Now(), token, err)
	})
	if begun {
		t.fetching = done
	}
	return begun
}

// fetched notes how a request has ended.
func (t *tokens) fetched(now time.Time, token *oauth2.Token, err error) {
	if err == nil {
		err = checkToken(token)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fetching = nil
	if err != nil {
		t.fail(now, err)
		return
	}
	if t.failures > 0 {
		t.set.log.Info("a token endpoint gives access tokens again", "secret", t.name)
	}
	life := longestUse
	if !token.Expiry.IsZero() {
		life = token.Expiry.Sub(now)
	}
	life = min(max(life, 0), longestLife)
	t.failures, t.failed, t.retry = 0, "", now.Add(shortestUse)
	t.token, t.made = token.AccessToken, now
	t.ends = now.Add(max(life-min(endMargin, life/4), shortestUse))
	t.renew = now.Add(max(life-min(renewBefore, life/4), shortestUse))
}

// longestLife is as long as tokens of any endpoint last.
const longestLife = 366 * 24 * time.Hour

func (t *tokens) fail(now time.Time, err error) {
	pause := min(firstBackoff<<min(t.failures, 10), lastBackoff)
	why, asked := reason(err)
	t.retry = now.Add(max(pause, asked))
	if t.failures++; t.failures == 1 || why != t.failed {
		// The cause may hold addresses, which are for the operator; the answer is left out, since an endpoint may
		// repeat in it what it was sent.
		t.set.log.Warn("a token endpoint gives no access token", "secret", t.name, "reason", why, "error", cause(err))
	}
	t.failed, t.passes = why, passes(err)
}

// reject has a token made again that a target does not take, but not each time: it may never take one. The
// token is used until there is another one: the fault may be the target's, and others take it.
func (t *tokens) reject(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if token != t.token || now.Sub(t.made) < trusted {
		return
	}
	t.renew = now
	if t.fetching == nil && !now.Before(t.retry) {
		t.fetch() // false: the set is closed
	}
}

// answerError is about an answer that came with 2xx.
type answerError string

// Error implements error.
func (e answerError) Error() string { return string(e) }

func checkToken(token *oauth2.Token) error {
	switch kind := token.Type(); {
	case !strings.EqualFold(kind, "bearer"):
		return answerError("the token endpoint gives a token that is no bearer token")
	case len(token.AccessToken) > maxToken:
		return answerError(fmt.Sprintf("the token has more than %d bytes", maxToken))
	case strings.ContainsFunc(token.AccessToken, notOfToken):
		return answerError("the token has a character that a bearer token cannot have")
	}
	return nil
}

// notOfToken reports whether r is no printable character of ASCII: RFC 6750 allows fewer, and some endpoints
// do not mind it.
func notOfToken(r rune) bool { return r <= ' ' || r > '~' }

// errorCodes are those of RFC 6749, 5.2. Others are not shown: an endpoint may write there what it was sent.
var errorCodes = map[string]bool{"invalid_request": true, "invalid_client": true, "invalid_grant": true,
	"unauthorized_client": true, "unsupported_grant_type": true, "invalid_scope": true}

// reason returns why there is no token, without anything that the endpoint wrote, and how long it asks to
// wait.
func reason(err error) (why string, after time.Duration) {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		why = fmt.Sprintf("the token endpoint answered %d", e.Response.StatusCode)
		if errorCodes[e.ErrorCode] {
			why += " " + e.ErrorCode
		}
		return why, retryAfter(e.Response)
	}
	if e, ok := errors.AsType[answerError](err); ok {
		return e.Error(), 0
	}
	if _, ok := errors.AsType[*httptarget.RefusedError](err); ok {
		return "the address of the token endpoint is not a public one (an operator can allow it with --allow-target)", 0
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("the token endpoint gave no answer within %v", fetchTimeout), 0
	}
	if _, ok := errors.AsType[*url.Error](err); ok { // it has all errors of a request
		return "the token endpoint cannot be reached", 0
	}
	return "the answer of the token endpoint has no token, or is larger than 64 KiB", 0
}

// passes reports whether an endpoint that gave no token may give one without anybody's doing: it was not
// reached in time, or says that the fault is its own or that it is asked too often.
func passes(err error) bool {
	if _, refused := errors.AsType[*httptarget.RefusedError](err); refused {
		return false
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		code := e.Response.StatusCode
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return false
	}
	_, away := errors.AsType[*url.Error](err)
	return away || errors.Is(err, context.DeadlineExceeded)
}

// cause is what the log may say of an error. Others may quote what the endpoint wrote.
func cause(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e.Error()
	}
	return fmt.Sprintf("%T", err)
}

// retryAfter is what a Retry-After in seconds says.
func retryAfter(r *http.Response) time.Duration {
	n, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, lastAsked)
}
