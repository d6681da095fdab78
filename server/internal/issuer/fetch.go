package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	fetchTimeout = 5 * time.Second // of one request
	maxDocument  = 512 << 10       // bytes of an answer
	maxKeys      = 100             // of an issuer
	maxError     = 300             // bytes of an error that is logged
)

// CheckURL refuses a URL at which an issuer cannot be asked, or could be asked by others in its place.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%.100q is no URL such as https://login.example.com", text)
	case u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" || u.RawQuery != "",
		!printable(text):
		return fmt.Errorf("%.100q is no URL such as https://login.example.com, without a user, query or fragment", text)
	case u.Scheme == "https" || u.Scheme == "http" && onLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%.100q must be https:// (http:// only on this machine, as localhost or 127.0.0.1)", text)
}

// onLoopback reports whether a host can be reached from this machine only.
func onLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// limited bounds what is read of answers.
type limited struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxDocument)
	}
	return answer, err
}

// newClient returns what asks the issuer, and nobody else in its place.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &http.Client{Transport: limited{transport}, Timeout: fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects, which is not followed: give the URL that it redirects to")
		}}
}

// fetch asks the issuer for where its keys are, then for the keys.
func fetch(ctx context.Context, client *http.Client, issuer string) ([]jose.JSONWebKey, error) {
	p, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
	if err != nil {
		return nil, err
	}
	var says struct {
		Keys string `json:"jwks_uri"`
	}
	if err := p.Claims(&says); err != nil {
		return nil, err
	}
	if err := checkKeysURL(says.Keys); err != nil {
		return nil, fmt.Errorf("jwks_uri: %w", err)
	}
	if plain(says.Keys) && !plain(issuer) {
		return nil, fmt.Errorf("jwks_uri: %.100q must be https://, as the issuer is", says.Keys)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, says.Keys, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", says.Keys, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", says.Keys, answer.Status)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", says.Keys, err)
	}
	return keys, nil
}

// plain reports whether a URL is one of plain HTTP.
func plain(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http"
}

// clip shortens an error that has an answer in it, or something of a token.
func clip(err error) error {
	if text := err.Error(); len(text) > maxError {
		return errors.New(strings.ToValidUTF8(text[:maxError], "") + "…")
	}
	return err
}

// checkKeysURL is [CheckURL] for one that may have a query.
func checkKeysURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%.100q is no URL", text)
	}
	u.RawQuery = ""
	return CheckURL(u.String())
}

// parseKeys reads a key set. Keys of kinds that are not known, and those that are not for signatures, are
// left out (RFC 7517, section 5); none may be left, since an issuer may withdraw all.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	if set.Keys == nil {
		return nil, errors.New("it is no key set: keys is missing")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("there are %d keys, more than %d", len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") {
			keys = append(keys, k)
		}
	}
	return keys, nil
}
