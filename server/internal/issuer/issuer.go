package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
)

// Config says whose tokens are taken.
type Config struct {
	// URL is the issuer, exactly as its tokens name it: https, or http on loopback. Required.
	URL string
	// Audience is what tokens must be for. Required.
	Audience string
	// Now is the node's clock. Default [time.Now].
	Now func() time.Time
	// Log is told why tokens are refused (debug), and why keys could not be read. Default: nothing is.
	Log *slog.Logger
	// Transport makes requests to the issuer. Default: one that goes by the proxy of the environment.
	Transport http.RoundTripper
}

// compact are the characters of the short form of JWTs. There is another one, which needs more care.
const compact = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// Limits.
const (
	MaxToken   = 16 << 10 // bytes of a token
	maxSubject = 255      // bytes
)

// Check returns everything that is wrong; it names the fields as settings.
func (c *Config) Check() error { return errors.Join(c.checkURL(), c.checkAudience()) }

func (c *Config) checkURL() error {
	if c.URL == "" {
		return errors.New("oidc_issuer: tokens of which issuer are taken? Give its URL, such as https://login.example.com")
	}
	if err := CheckURL(c.URL); err != nil {
		return fmt.Errorf("oidc_issuer: %w", err)
	}
	return nil
}

func (c *Config) checkAudience() error {
	switch {
	case c.Audience == "":
		return errors.New("oidc_audience: what must tokens be for? Give the audience (claim aud) that the issuer writes into those for this API")
	case !printable(c.Audience) || len(c.Audience) > maxSubject:
		return fmt.Errorf("oidc_audience: it must be printable text of at most %d bytes", maxSubject)
	}
	return nil
}

// Issuer verifies tokens. Any goroutine may use it.
type Issuer struct {
	config Config
	keys   *keySet
	tokens *oidc.IDTokenVerifier
}

// algorithms are those by which a token may be signed: by a private key, so not with a secret, and not
// without anything.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256,
	oidc.PS384, oidc.PS512, oidc.EdDSA}

// New returns the issuer of a valid configuration. It asks nobody: see [Issuer.Refresh].
func New(c Config) *Issuer {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	keys := newKeySet(&c)
	return &Issuer{config: c, keys: keys, tokens: oidc.NewVerifier(c.URL, keys,
		&oidc.Config{ClientID: c.Audience, SupportedSigningAlgs: algorithms, Now: c.Now})}
}

// errInvalid is the answer to every token that is not right: which of the reasons it is, the log says.
var errInvalid = carillon.Errorf(carillon.Unauthenticated, "",
	"the token is not valid: it is none of this node's issuer and audience, or its time is over, or its signature wrong")

// Verify returns what a token says. It fails with Unauthenticated if the token is wrong, and with Unavailable
// if the keys of the issuer are needed and cannot be read.
func (i *Issuer) Verify(ctx context.Context, token string) (*access.Token, error) {
	t, err := i.judge(ctx, token)
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, carillon.Unavailable):
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	i.config.Log.DebugContext(ctx, "a token is refused", "error", clip(err))
	return nil, errInvalid
}

func (i *Issuer) judge(ctx context.Context, token string) (*access.Token, error) {
	if len(token) > MaxToken {
		return nil, fmt.Errorf("it has more than %d bytes", MaxToken)
	}
	if strings.Count(token, ".") != 2 || strings.Trim(token, compact) != "" {
		return nil, errors.New("it is no signed JWT")
	}
	asked := &asked{}
	verified, err := i.tokens.Verify(context.WithValue(ctx, askedKey{}, asked), token)
	if asked.away != nil { // the library does not hand on the error as such
		return nil, asked.away
	}
	if err != nil {
		return nil, err
	}
	t := &access.Token{Issuer: i.config.URL, Expires: verified.Expiry}
	if err := verified.Claims(&t.Claims); err != nil {
		return nil, err
	}
	if _, bound := t.Claims["cnf"]; bound { // RFC 7800: it is not for whoever bears it
		return nil, errors.New("it is bound to a key of its owner (claim cnf), which is not verified here")
	}
	t.Subject, _ = t.Claims["sub"].(string)
	if t.Subject == "" || len(t.Subject) > maxSubject || !printable(t.Subject) {
		return nil, errors.New("its subject (claim sub) is missing, too long or not printable")
	}
	return t, nil
}

// Refresh reads the issuer's keys now.
func (i *Issuer) Refresh(ctx context.Context) error { return i.keys.refresh(ctx) }

// Follow reads the keys at once and every 10 minutes, until ctx ends: those that the issuer has withdrawn are
// forgotten. While it does not answer it is asked again after seconds, then less often, and those read before
// hold for a day.
func (i *Issuer) Follow(ctx context.Context) {
	var f follower
	for {
		err := i.Refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		timer := time.NewTimer(f.next(i, err))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// follower is how it went to read the keys again.
type follower struct {
	told string        // the error that was logged
	out  bool          // that the keys hold no longer was logged
	wait time.Duration // after the last failure; 0: there was none
}

// next logs what is new about a read, and returns when the next is due.
func (f *follower) next(i *Issuer, err error) time.Duration {
	if err == nil {
		*f = follower{}
		return refreshEvery
	}
	if text := err.Error(); text != f.told {
		f.told = text
		i.config.Log.Warn("the keys of the issuer of tokens cannot be read: tokens signed by a key that is not known are refused until then",
			"issuer", i.config.URL, "error", err)
	}
	if known := i.keys.known.Load(); !f.out && known != nil && time.Since(known.read) > keysLast {
		f.out = true
		i.config.Log.Error("the keys of the issuer of tokens were not read for a day: every token is refused until they are",
			"issuer", i.config.URL, "error", err)
	}
	f.wait = min(max(askEvery, 2*f.wait), refreshEvery)
	return f.wait
}

// printable reports whether a text can be shown on a line.
func printable(text string) bool {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
}
