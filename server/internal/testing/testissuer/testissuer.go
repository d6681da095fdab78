// Package testissuer is an OpenID Connect issuer for tests: discovery, keys and signed tokens, over HTTP on
// loopback.
package testissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an issuer. Its methods may be called at any time.
type Issuer struct {
	URL string

	t      testing.TB
	server *httptest.Server

	mu    sync.Mutex
	made  int
	keys  map[string]crypto.Signer // that are published
	asked int                      // how often for keys
	away  bool
}

// New starts an issuer with one key, "1".
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, keys: map[string]crypto.Signer{}}
	i.server = httptest.NewServer(i)
	t.Cleanup(i.server.Close)
	i.URL = i.server.URL
	i.Add()
	return i
}

// NewKey is a key that nobody publishes.
func NewKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Add publishes one key more, and returns its id: the number of keys made so far.
func (i *Issuer) Add() (id string) {
	k := NewKey(i.t)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	id = strconv.Itoa(i.made)
	i.keys[id] = k
	return id
}

// Key returns a published key.
func (i *Issuer) Key(id string) crypto.Signer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[id]
}

// Withdraw publishes a key no longer.
func (i *Issuer) Withdraw(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.keys, id)
}

// Away has the issuer answer nothing but errors, or as usual again.
func (i *Issuer) Away(away bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away = away
}

// Asked returns how often the keys were read.
func (i *Issuer) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// ServeHTTP implements [http.Handler].
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var answer any
	switch {
	case i.away:
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	case r.URL.Path == "/.well-known/openid-configuration":
		answer = map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL,
			"token_endpoint": i.URL, "id_token_signing_alg_values_supported": []string{"ES256"}}
	case r.URL.Path == "/keys":
		i.asked++
		var set jose.JSONWebKeySet
		for id, k := range i.keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{KeyID: id, Key: k.Public(), Use: "sig", Algorithm: "ES256"})
		}
		answer = set
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text) // the caller is gone if this fails
}

// Claims are those of a right token for an audience, for an hour.
func (i *Issuer) Claims(audience string) map[string]any {
	now := time.Now()
	return map[string]any{"iss": i.URL, "sub": "alice", "aud": audience, "iat": now.Unix(),
		"exp": now.Add(time.Hour).Unix()}
}

// Token is a right token, signed by the key "1", with some claims changed; nil leaves one out.
func (i *Issuer) Token(audience string, change map[string]any) string {
	i.t.Helper()
	claims := i.Claims(audience)
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return Sign(i.t, i.Key("1"), "1", claims)
}

// Sign returns a token with claims, signed by a key (ES256).
func Sign(t testing.TB, key crypto.Signer, id string, claims map[string]any) string {
	t.Helper()
	by := jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}
	s, err := jose.NewSigner(by, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Compact(t, s, claims)
}

// Compact returns a token with claims, signed by what is given.
func Compact(t testing.TB, s jose.Signer, claims map[string]any) string {
	t.Helper()
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
