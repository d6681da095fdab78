package issuer

import (
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/testissuer"
)

const audience = "carillon"

// of is a verifier of an issuer's tokens that asks for keys as often as it likes.
func of(url string) *Issuer {
	i := New(Config{URL: url, Audience: audience})
	i.keys.every = 0
	return i
}

// TestRightTokens say who somebody is, and until when.
func TestRightTokens(t *testing.T) {
	real := testissuer.New(t)
	i := of(real.URL)
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, change := range []map[string]any{{}, {"aud": []string{"other", audience}}, {"nbf": time.Now().Unix()}} {
		change["exp"], change["groups"] = end.Unix(), []string{"ops"}
		got, err := i.Verify(t.Context(), real.Token(audience, change))
		if err != nil {
			t.Fatal(err)
		}
		if got.Issuer != real.URL || got.Subject != "alice" || !got.Expires.Equal(end) || got.Claims["groups"] == nil {
			t.Errorf("%+v", got)
		}
	}
	if real.Asked() != 1 {
		t.Errorf("the keys were read %d times for three tokens", real.Asked())
	}
}

// TestWrongTokensAreRefused as unauthenticated, in the same words whatever is wrong.
func TestWrongTokensAreRefused(t *testing.T) {
	real, other := testissuer.New(t), testissuer.New(t)
	i := of(real.URL)
	right := real.Token(audience, nil)
	parts := strings.Split(right, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	symmetric, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("k", 32))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{
		"empty":            "",
		"no JWT":           "abc",
		"dots":             "..",
		"three parts":      "a.b.c",
		"encrypted":        "a.b.c.d.e",
		"expired":          real.Token(audience, map[string]any{"exp": time.Now().Add(-time.Second).Unix()}),
		"no end":           real.Token(audience, map[string]any{"exp": nil}),
		"not yet":          real.Token(audience, map[string]any{"nbf": time.Now().Add(10 * time.Minute).Unix()}),
		"wrong audience":   real.Token("other", nil),
		"no audience":      real.Token(audience, map[string]any{"aud": nil}),
		"wrong issuer":     real.Token(audience, map[string]any{"iss": other.URL}),
		"another's":        other.Token(audience, nil),
		"another's as his": other.Token(audience, map[string]any{"iss": real.URL}),
		"bound to a key":   real.Token(audience, map[string]any{"cnf": map[string]any{"jkt": "x"}}),
		"no subject":       real.Token(audience, map[string]any{"sub": nil}),
		"empty subject":    real.Token(audience, map[string]any{"sub": ""}),
		"lines in subject": real.Token(audience, map[string]any{"sub": "a\nb"}),
		"long subject":     real.Token(audience, map[string]any{"sub": strings.Repeat("a", 256)}),
		"no signature":     parts[0] + "." + parts[1] + ".",
		"alg none":         none + "." + parts[1] + ".",
		"alg none, signed": none + "." + parts[1] + "." + parts[2],
		"with a secret":    testissuer.Compact(t, symmetric, real.Claims(audience)),
		"unknown key":      testissuer.Sign(t, testissuer.NewKey(t), "1", real.Claims(audience)),
		"unknown id":       testissuer.Sign(t, real.Key("1"), "2", real.Claims(audience)),
		"other claims":     parts[0] + "." + strings.Split(real.Token(audience, map[string]any{"sub": "bob"}), ".")[1] + "." + parts[2],
		"as JSON":          `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `","x":".."}`,
		"spaces":           parts[0] + "." + parts[1] + ". " + parts[2],
		"too long":         real.Token(audience, map[string]any{"x": strings.Repeat("a", MaxToken)}),
	} {
		got, err := i.Verify(t.Context(), token)
		if !errors.Is(err, carillon.Unauthenticated) || err.Error() != errInvalid.Error() {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	if _, err := i.Verify(t.Context(), right); err != nil {
		t.Error(err)
	}
}

// TestKeysRotate: a new key is known at its first token, and a withdrawn one is forgotten at the next refresh.
func TestKeysRotate(t *testing.T) {
	real := testissuer.New(t)
	i := of(real.URL)
	old := real.Token(audience, nil)
	if _, err := i.Verify(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	id := real.Add()
	renewed := testissuer.Sign(t, real.Key(id), id, real.Claims(audience))
	for _, token := range []string{renewed, old} {
		if _, err := i.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	real.Withdraw("1")
	if err := i.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Verify(t.Context(), old); !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("the key was withdrawn: %v", err)
	}
	if _, err := i.Verify(t.Context(), renewed); err != nil {
		t.Error(err)
	}
}

// TestMadeUpTokensDoNotReachTheIssuer: not more often than every few seconds.
func TestMadeUpTokensDoNotReachTheIssuer(t *testing.T) {
	real := testissuer.New(t)
	i := New(Config{URL: real.URL, Audience: audience})
	i.keys.every = time.Hour
	for n := range 50 {
		want := carillon.Unavailable // a key "x" may be new
		if n == 0 {
			want = carillon.Unauthenticated
		}
		if _, err := i.Verify(t.Context(), testissuer.Sign(t, testissuer.NewKey(t), "x", real.Claims(audience))); !errors.Is(err, want) {
			t.Fatal(n, err)
		}
		_, err := i.Verify(t.Context(), testissuer.Sign(t, testissuer.NewKey(t), "1", real.Claims(audience)))
		if !errors.Is(err, carillon.Unauthenticated) {
			t.Fatal("a known key has not signed it:", err)
		}
	}
	id := real.Add()
	right := testissuer.Sign(t, real.Key(id), id, real.Claims(audience))
	if _, err := i.Verify(t.Context(), right); !errors.Is(err, carillon.Unavailable) {
		t.Errorf("a right token that is too new: %v", err)
	}
	if real.Asked() != 1 {
		t.Errorf("the issuer was asked %d times", real.Asked())
	}
}

// TestAnIssuerThatIsAway: what its keys are needed for is unavailable; what known keys have signed is judged.
func TestAnIssuerThatIsAway(t *testing.T) {
	real := testissuer.New(t)
	real.Away(true)
	i := of(real.URL)
	right := real.Token(audience, nil)
	if _, err := i.Verify(t.Context(), right); !errors.Is(err, carillon.Unavailable) {
		t.Errorf("never reached: %v", err)
	}
	real.Away(false)
	if _, err := i.Verify(t.Context(), right); err != nil {
		t.Fatal(err)
	}
	real.Away(true)
	if _, err := i.Verify(t.Context(), right); err != nil {
		t.Errorf("the key is known: %v", err)
	}
	if _, err := i.Verify(t.Context(), real.Token("other", nil)); !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("wrong, by a known key: %v", err)
	}
	known := *i.keys.known.Load()
	known.read = known.read.Add(-keysLast)
	i.keys.known.Store(&known)
	if _, err := i.Verify(t.Context(), right); !errors.Is(err, carillon.Unavailable) {
		t.Errorf("keys of the day before: %v", err)
	}
}

// TestAnIssuerThatHangs: so many wait for it, for so long; others are told at once to come again.
func TestAnIssuerThatHangs(t *testing.T) {
	real := testissuer.New(t)
	right := real.Token(audience, nil)
	synctest.Test(t, func(t *testing.T) {
		i := New(Config{URL: real.URL, Audience: audience, Transport: silent{}})
		i.keys.every = 0 // each that comes after one asks again
		began, told := time.Now(), make(chan error)
		ask := func() {
			_, err := i.Verify(t.Context(), right)
			told <- err
		}
		for range mostWait {
			go ask()
		}
		synctest.Wait()
		for range 3 {
			_, err := i.Verify(t.Context(), right)
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || e.RetryAfter != askWithin ||
				time.Since(began) != 0 {
				t.Errorf("one too many: %v, after %v", err, time.Since(began))
			}
		}
		for range mostWait {
			if err := <-told; !errors.Is(err, carillon.Unavailable) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 2*askWithin {
			t.Errorf("they have waited for %v", took)
		}
		if n := i.keys.wait.Load(); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestWrongAnswersOfAnIssuer are errors, and open nothing.
func TestWrongAnswersOfAnIssuer(t *testing.T) {
	var url string
	says := func(issuer, keys string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/keys" {
				_, _ = w.Write([]byte(keys))
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.ReplaceAll(`{"issuer":"`+issuer+`","jwks_uri":"URL/keys"}`, "URL", url)))
		}
	}
	for what, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"another issuer": {says("https://other.example", `{"keys":[]}`), "did not match"},
		"no key set":     {says("URL", `{"error":"x"}`), "keys is missing"},
		"no JSON":        {says("URL", `<html>`), "invalid character"},
		"too large":      {says("URL", strings.Repeat(" ", maxDocument+1)), "too large"},
		"plain text": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"issuer":"` + url + `","jwks_uri":"http://keys.example/"}`))
		}, "must be https"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, "redirects"},
	} {
		s := httptest.NewServer(c.serve)
		url = s.URL
		if err := of(s.URL).Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		s.Close()
	}
}

// TestAllKeysWithdrawn: that holds at once, though there is no key in their place.
func TestAllKeysWithdrawn(t *testing.T) {
	real := testissuer.New(t)
	i := of(real.URL)
	right := real.Token(audience, nil)
	if _, err := i.Verify(t.Context(), right); err != nil {
		t.Fatal(err)
	}
	real.Withdraw("1")
	text := &strings.Builder{}
	i.keys.log = slog.New(slog.NewTextHandler(text, nil))
	i.keys.client.Transport = emptyKeys{i.keys.client.Transport}
	for range 2 {
		if err := i.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := i.Verify(t.Context(), right); !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("%v", err)
	}
	if strings.Count(text.String(), "no key for signatures") != 1 {
		t.Error(text)
	}
}

// emptyKeys answers for the issuer with keys that are none for signatures.
type emptyKeys struct{ http.RoundTripper }

func (e emptyKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := e.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Path == "/keys" {
		err = answer.Body.Close()
		answer.Body = io.NopCloser(strings.NewReader(`{"keys":[{"kty":"oct","k":"c2VjcmV0"},{"kty":"?"}]}`))
	}
	return answer, err
}

// TestKeysInPlainText are not read for an issuer at https.
func TestKeysInPlainText(t *testing.T) {
	var url string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"issuer":"` + url + `","jwks_uri":"http://127.0.0.1:1/keys"}`))
	}))
	defer s.Close()
	url = s.URL
	i := New(Config{URL: url, Audience: audience, Transport: s.Client().Transport})
	if err := i.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "as the issuer is") {
		t.Error(err)
	}
}

// TestWhatIsLoggedOfAnIssuerThatIsAway: each error once, and that the keys hold no longer; it is asked again
// after seconds, then less often.
func TestWhatIsLoggedOfAnIssuerThatIsAway(t *testing.T) {
	text := &strings.Builder{}
	i := New(Config{URL: "https://a", Audience: audience, Log: slog.New(slog.NewTextHandler(text, nil))})
	i.keys.known.Store(&keys{read: time.Now()})
	var f follower
	var waits []time.Duration
	for _, what := range []string{"one", "one", "two"} {
		waits = append(waits, f.next(i, errors.New(what)))
	}
	if want := []time.Duration{askEvery, 2 * askEvery, 4 * askEvery}; !slices.Equal(waits, want) {
		t.Errorf("%v, want %v", waits, want)
	}
	if strings.Count(text.String(), "level=WARN") != 2 || strings.Contains(text.String(), "level=ERROR") {
		t.Error(text)
	}
	i.keys.known.Store(&keys{read: time.Now().Add(-keysLast - time.Second)})
	for range 10 {
		f.next(i, errors.New("two"))
	}
	if strings.Count(text.String(), "level=ERROR") != 1 || f.wait != refreshEvery {
		t.Error(f.wait, text)
	}
	if f.next(i, nil) != refreshEvery || f != (follower{}) {
		t.Errorf("%+v", f)
	}
}

// TestLongErrorsAreClipped: an answer does not fill the log.
func TestLongErrorsAreClipped(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("é", 10_000), http.StatusInternalServerError)
	}))
	defer s.Close()
	if err := of(s.URL).Refresh(t.Context()); err == nil || len(err.Error()) > maxError+len("…") {
		t.Error(err)
	}
}

// TestSettingsAreChecked, and named.
func TestSettingsAreChecked(t *testing.T) {
	for url, ok := range map[string]bool{"https://login.example.com": true, "https://login.example.com/realms/a": true,
		"http://localhost:8080": true, "http://127.0.0.1:1/x": true, "http://[::1]:1": true,
		"": false, "login.example.com": false, "http://login.example.com": false, "http://localhost.example.com": false,
		"https://": false, "https://a@b": false, "https://a?x=y": false, "https://a#b": false, "ftp://localhost": false,
		"http://10.0.0.1": false} {
		c := Config{URL: url, Audience: audience}
		if err := c.Check(); (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "oidc_issuer: ") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, a := range []string{"", "a\nb", strings.Repeat("a", 256)} {
		c := Config{URL: "https://a", Audience: a}
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), "oidc_audience: ") {
			t.Errorf("%q: %v", a, err)
		}
	}
}

// BenchmarkVerify is what a call with a token costs more than one without.
func BenchmarkVerify(b *testing.B) {
	real := testissuer.New(b)
	i := of(real.URL)
	token := real.Token(audience, map[string]any{"groups": []string{"a", "b", "ops"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}
