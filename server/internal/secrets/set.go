package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/secretref"
	"github.com/carillonhq/carillon/server/internal/dispatch/httptarget"
)

// Set is the secrets of a node, as their file has them at present. It implements [httptarget.Secrets].
type Set struct {
	client *http.Client // asks for tokens
	log    *slog.Logger

	ctx     context.Context // of requests for tokens
	end     context.CancelFunc
	fetches sync.WaitGroup

	mu     sync.Mutex
	all    map[string]*secret
	closed bool
}

// secret is one state of a secret.
type secret struct {
	Config
	tokens *tokens // nil: it has a value of its own
}

// NewSet returns a set without secrets.
func NewSet(client *http.Client, log *slog.Logger) *Set {
	s := &Set{client: client, log: log}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// Apply puts the secrets of a file in force. Tokens of those that are as they were are kept.
func (s *Set) Apply(all map[string]Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[string]*secret, len(all))
	for name, c := range all {
		if old := s.all[name]; old != nil && old.Print == c.Print {
			next[name] = old
			continue
		}
		one := &secret{Config: c}
		if c.tokens != nil {
			one.tokens = &tokens{config: c.tokens, name: name, set: s}
		}
		next[name] = one
	}
	s.all = next
}

// Close ends requests for tokens.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.fetches.Wait()
}

// begin starts a request for a token, unless the set is closed.
func (s *Set) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.fetches.Go(f)
	return true
}

// refusal is why a secret is not used.
func refusal(format string, args ...any) *httptarget.SecretError {
	return &httptarget.SecretError{Message: fmt.Sprintf(format, args...)}
}

// find returns the secret of a use that is allowed.
func (s *Set) find(use *httptarget.SecretUse) (*secret, *httptarget.SecretError) {
	name := use.Ref.Name
	s.mu.Lock()
	one := s.all[name]
	s.mu.Unlock()
	// Whether there is one for others is nobody's business.
	if one == nil || !one.isFor(use.Namespace) {
		return nil, refusal("there is no secret %s for namespace %s on this node (--secrets)", name, use.Namespace)
	}
	if !slices.ContainsFunc(one.hosts, func(h host) bool { return h.allows(use.URL) }) {
		return nil, refusal("secret %s may not be sent to %s: that is none of its hosts (--secrets)", name, place(use.URL))
	}
	if use.URL.Scheme != "https" && !one.plain {
		return nil, refusal("secret %s is sent by https:// only, unless --secrets says allow_http for it", name)
	}
	if one.whole && (use.Ref.Scheme != "" || !strings.EqualFold(use.Header, "Authorization")) {
		return nil, refusal("secret %s is for the header Authorization alone, as secret://%[1]s without a word before it", name)
	}
	return one, nil
}

// place is host:port of a URL.
func place(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return u.Host + ":" + defaultPorts[u.Scheme]
}

// isFor reports whether jobs of a namespace may use the secret.
func (c *Config) isFor(namespace string) bool {
	return slices.ContainsFunc(c.namespaces, func(p string) bool { return matches(p, namespace) })
}

// matches reports whether a pattern has a namespace.
func matches(pattern, namespace string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == namespace || open && strings.HasPrefix(namespace, prefix)
}

// Check returns an error about a header of a target that refers to a secret which jobs of the namespace may
// not send there.
func (s *Set) Check(namespace string, t *carillon.HTTPTarget) error {
	const field = "target.http.headers"
	for name, value := range t.Headers {
		ref, is, err := secretref.Parse(value)
		if err != nil {
			return carillon.Errorf(carillon.InvalidArgument, field, "%q: %v", name, err)
		}
		if !is {
			continue
		}
		to, err := url.Parse(t.URL)
		if err != nil {
			return carillon.Errorf(carillon.InvalidArgument, "target.http.url", "it is not a URL")
		}
		use := httptarget.SecretUse{Ref: ref, Header: name, Namespace: namespace, URL: to}
		if _, why := s.find(&use); why != nil {
			return carillon.Errorf(carillon.InvalidArgument, field, "%q: %s", name, why.Message)
		}
	}
	return nil
}

// Value implements [httptarget.Secrets].
func (s *Set) Value(ctx context.Context, use httptarget.SecretUse) (string, error) {
	one, why := s.find(&use)
	if why != nil {
		why.RetryAfter, why.Lags = lookAgain, true
		return "", why
	}
	value := one.value
	if one.tokens != nil {
		token, err := one.tokens.get(ctx)
		if err != nil {
			return "", err
		}
		value = "Bearer " + token
	}
	if use.Ref.Scheme != "" {
		value = use.Ref.Scheme + " " + value
	}
	return value, nil
}

// lookAgain is how long an attempt waits at least whose secret is missing: files are looked at every 5 s, and
// those of several nodes are not replaced at once.
const lookAgain = 5 * time.Second

// Rejected implements [httptarget.Secrets].
func (s *Set) Rejected(use httptarget.SecretUse, value string) {
	if one, why := s.find(&use); why == nil && one.tokens != nil {
		one.tokens.reject(strings.TrimPrefix(value, "Bearer "))
	}
}
