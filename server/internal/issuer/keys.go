package issuer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/carillonhq/carillon"
)

const (
	// refreshEvery is how often the keys are read again by themselves.
	refreshEvery = 10 * time.Minute
	// askEvery is how often they are read, at most, for tokens that none of the known keys has signed: whoever
	// makes up tokens does not have the issuer asked for each.
	askEvery = 5 * time.Second
	// keysLast is how long keys hold that could not be read again.
	keysLast = 24 * time.Hour
	// askWithin is how long the issuer may take to answer for a token, and how long one waits for the answer
	// that another is waiting for.
	askWithin = 5 * time.Second
	// mostWait is how many calls may wait for an answer of the issuer.
	mostWait = 100
)

// keySet keeps the issuer's keys. It implements [oidc.KeySet]. The library's own asks the issuer for every
// token with a wrong signature, and never forgets a key that was withdrawn.
type keySet struct {
	issuer string
	client *http.Client
	known  atomic.Pointer[keys]
	asking chan struct{} // has room for the one who asks
	wait   atomic.Int64  // how many wait to be the one who asks, or ask
	every  time.Duration // askEvery, but for tests
	log    *slog.Logger
	began  time.Time // when the issuer was asked; the asking one's, as the next
	last   time.Time // when that was over
	failed error
}

// keys are those that were read at a time. They are not changed.
type keys struct {
	all  []jose.JSONWebKey
	read time.Time
}

var _ oidc.KeySet = (*keySet)(nil)

func newKeySet(c *Config) *keySet {
	return &keySet{issuer: c.URL, client: newClient(c.Transport), asking: make(chan struct{}, 1),
		every: askEvery, log: c.Log}
}

// errAway is the answer to a token that only keys could judge that cannot be read.
var errAway = carillon.Errorf(carillon.Unavailable, "", "the issuer of tokens does not answer, so this one cannot be verified now")

// errNew is the answer to a token whose key is not known, while the issuer is not asked again: it may be new.
var errNew = carillon.Errorf(carillon.Unavailable, "",
	"the key of this token is not known, and those of the issuer were read a moment ago: call again in some seconds")

// errBusy is the answer to a token that only new keys could judge, while many others wait for them.
var errBusy = func() error {
	e := carillon.Errorf(carillon.Unavailable, "",
		"the issuer of tokens has not answered yet, and %d other calls wait for it", mostWait)
	e.RetryAfter = askWithin
	return e
}()

// asked takes out of the library whether the issuer could be asked.
type asked struct{ away error }

type askedKey struct{}

// VerifySignature implements [oidc.KeySet].
func (s *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	shown := time.Now()
	signed, err := jose.ParseSigned(token, signatures())
	if err != nil {
		return nil, err
	}
	if payload, _ := s.open(signed); payload != nil {
		return payload, nil
	}
	err = s.ask(ctx, shown) // also if its key is known: another may have its id now
	payload, named := s.open(signed)
	if payload != nil {
		return payload, nil
	}
	if err != nil && !named {
		if a, ok := ctx.Value(askedKey{}).(*asked); ok && ctx.Err() == nil {
			a.away = errAway
			for _, known := range []error{errNew, errBusy} {
				if errors.Is(err, known) {
					a.away = known
				}
			}
		}
		return nil, err
	}
	return nil, errors.New("none of the issuer's keys has signed it")
}

// open returns what a token says if a known key has signed it; nil otherwise. named: the key that the token
// names is known.
func (s *keySet) open(signed *jose.JSONWebSignature) (payload []byte, named bool) {
	known := s.known.Load()
	if known == nil || time.Since(known.read) > keysLast || len(signed.Signatures) != 1 {
		return nil, false
	}
	header := signed.Signatures[0].Header
	for i := range known.all {
		k := &known.all[i]
		named = named || header.KeyID != "" && k.KeyID == header.KeyID
		if header.KeyID != "" && k.KeyID != header.KeyID || k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(k.Key); err == nil {
			return payload, true
		}
	}
	return nil, named
}

// ask reads the keys for a token, shown at a time, that none of those known has signed. It fails with errNew
// if that was done just before the token was shown.
func (s *keySet) ask(ctx context.Context, shown time.Time) error {
	defer s.wait.Add(-1)
	if s.wait.Add(1) > mostWait {
		return errBusy
	}
	if err := s.beginWithin(ctx); err != nil {
		return err
	}
	defer s.done()
	if !s.last.IsZero() && time.Since(s.last) < s.every {
		if s.failed == nil && s.began.Before(shown) {
			return errNew
		}
		return s.failed
	}
	// Also if the caller is gone: others wait for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	return s.read(ctx)
}

// beginWithin is begin for askWithin at most.
func (s *keySet) beginWithin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return s.begin(ctx)
}

// refresh reads the keys.
func (s *keySet) refresh(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.done()
	return s.read(ctx)
}

// begin waits until nobody else asks.
func (s *keySet) begin(ctx context.Context) error {
	select {
	case s.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *keySet) done() { <-s.asking }

// read asks the issuer.
func (s *keySet) read(ctx context.Context) error {
	s.began = time.Now()
	all, err := fetch(ctx, s.client, s.issuer)
	if err != nil {
		err = clip(err)
	}
	s.last, s.failed = time.Now(), err
	if err == nil {
		before := s.known.Swap(&keys{all: all, read: s.last})
		if len(all) == 0 && (before == nil || len(before.all) > 0) {
			s.log.Error("the issuer has no key for signatures: every token is refused until it has one", "issuer", s.issuer)
		}
	}
	return err
}

// signatures are the algorithms as the library of keys has them.
func signatures() []jose.SignatureAlgorithm {
	all := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, name := range algorithms {
		all[i] = jose.SignatureAlgorithm(name)
	}
	return all
}
