package httptarget

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/secretref"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Secrets have the values that headers of jobs refer to (secret://NAME).
type Secrets interface {
	// Value returns the whole value of a header, or a *[SecretError]. It may have to wait for a token, and waits
	// no longer than ctx.
	Value(ctx context.Context, use SecretUse) (string, error)
	// Rejected says that the target has answered 401 to a value.
	Rejected(use SecretUse, value string)
}

// SecretUse is a header that refers to a secret.
type SecretUse struct {
	Ref       secretref.Ref
	Header    string // as the job has it
	Namespace string
	URL       *url.URL // to send it to
}

// SecretError is why there is no value. Its message is shown to whoever may read the run.
type SecretError struct {
	Message    string
	RetryAfter time.Duration // from when on it is worth trying again; 0: not known
	Passes     bool          // by itself: the attempt is put off and not counted
	Lags       bool          // the file may be late: the first attempt is put off, not counted
}

// Error implements error.
func (e *SecretError) Error() string { return e.Message }

// tokenWait is how long an attempt waits for its secrets, at most.
const tokenWait = 10 * time.Second

// How long a run is put off whose secret is not to be had at present, without the jitter.
const (
	shortestPutOff = time.Second
	longestPutOff  = 5 * time.Minute
)

// errMalformed is why an attempt fails for good whose header has secret:// in it without being a reference.
type errMalformed struct{ error }

// resolved are headers of one attempt whose values are secrets.
type resolved struct {
	uses   []SecretUse
	values []string
}

// resolve returns the headers of a delivery that refer to secrets, with their values. A value is never put
// into the delivery, which others share. A node without secrets sends headers as they are.
func (t *Target) resolve(ctx context.Context, d *delivery.Delivery, within time.Duration) (*resolved, error) {
	var r resolved
	if d.Target.HTTP == nil || t.options.Named == nil {
		return &r, nil
	}
	for name, text := range d.Target.HTTP.Headers {
		ref, is, err := secretref.Parse(text)
		if err != nil {
			return nil, errMalformed{err}
		}
		if is {
			r.uses = append(r.uses, SecretUse{Ref: ref, Header: name, Namespace: d.Run.Namespace})
		}
	}
	if len(r.uses) == 0 {
		return &r, nil
	}
	to, err := url.Parse(d.Target.HTTP.URL)
	if err != nil {
		return nil, errMalformed{errors.New("the target's URL cannot be read")}
	}
	slices.SortFunc(r.uses, func(a, b SecretUse) int { return cmp.Compare(a.Header, b.Header) })
	ctx, cancel := context.WithTimeout(ctx, min(within, tokenWait))
	defer cancel()
	for i := range r.uses {
		r.uses[i].URL = to
		value, err := t.options.Named.Value(ctx, r.uses[i])
		if err != nil {
			return nil, err
		}
		r.values = append(r.values, value)
	}
	return &r, nil
}

// set replaces the references by the values.
func (r *resolved) set(fields http.Header) {
	for i, use := range r.uses {
		fields[http.CanonicalHeaderKey(use.Header)] = []string{r.values[i]}
	}
}

// answered has tokens made again that the target does not take.
func (t *Target) answered(r *resolved, status int) {
	if status != http.StatusUnauthorized {
		return
	}
	for i, use := range r.uses {
		t.options.Named.Rejected(use, r.values[i])
	}
}

// hidden stands in a kept answer where a target has repeated a secret.
const hidden = "[secret]"

// shortest is the least bytes of what is looked for in an answer: fewer are no secret, and found by chance.
const shortest = 6

// hide removes the values from a text that everybody may read who may read the run: some targets repeat what
// they were sent. What a target writes in another form is not found. If there may have been more of the text,
// the beginning of a value at its end is removed too.
func (r *resolved) hide(text []byte, more bool) []byte {
	if len(r.values) == 0 {
		return text
	}
	covered, rest := make([]bool, len(text)), len(text)
	for _, secret := range r.forms() {
		done := 0 // what is before is covered already, or is none of this secret
		for from := 0; ; from++ {
			at := bytes.Index(text[from:], secret)
			if at < 0 {
				break
			}
			from += at
			for i := max(from, done); i < from+len(secret); i++ {
				covered[i] = true
			}
			done = from + len(secret)
		}
		if more {
			rest = min(rest, len(text)-tail(text, secret))
		}
	}
	var kept []byte
	for i, b := range text {
		switch {
		case !covered[i] && i < rest:
			kept = append(kept, b)
		case covered[i] && (i == 0 || !covered[i-1]):
			kept = append(kept, hidden...)
		}
	}
	return kept
}

// forms are the values as targets repeat them: with and without their schemes, and as Go quotes them in
// errors.
func (r *resolved) forms() (all [][]byte) {
	for _, value := range r.values {
		texts := []string{value}
		if _, bare, spaced := strings.Cut(value, " "); spaced {
			texts = append(texts, bare)
		}
		for _, text := range texts {
			if len(text) < shortest {
				continue
			}
			all = append(all, []byte(text))
			if quoted := strings.Trim(strconv.Quote(text), `"`); quoted != text {
				all = append(all, []byte(quoted))
			}
		}
	}
	return all
}

// tail returns how many bytes at the end of a text are the beginning of a secret.
func tail(text, secret []byte) int {
	for n := min(len(secret)-1, len(text)); n > 0; n-- {
		if bytes.HasSuffix(text, secret[:n]) {
			return n
		}
	}
	return 0
}

// unresolved returns the report of an attempt that was not made for want of a secret. As for a payload that
// cannot be read: if that may pass, the run is put off, and its policy does not count it.
func (t *Target) unresolved(ctx context.Context, attempt int, err error) (r delivery.Report) {
	cause := context.Cause(ctx)
	if errors.Is(cause, errStopped) { // the node leaves, and nothing was sent: another one may do it
		r.Outcome, r.Message, r.At = carillon.OutcomeReschedule, "the node is shutting down", t.options.Now()
		return r
	}
	r.Message = "its headers: " + err.Error()
	r.Message = r.Message[:min(len(r.Message), carillon.MaxErrorBytes)]
	_, r.Permanent = errors.AsType[errMalformed](err)
	failed, ok := errors.AsType[*SecretError](err)
	switch {
	case ok && (failed.Passes || failed.Lags && attempt == 1):
		pause := min(max(failed.RetryAfter, shortestPutOff), longestPutOff)
		r.Outcome, r.At = carillon.OutcomeReschedule, t.options.Now().Add(pause+rand.N(pause/2+1))
	case ok:
		r.RetryAfter = min(failed.RetryAfter, MaxRetryAfter)
	}
	return r
}
