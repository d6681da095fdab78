package access

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// gateAt is a gate whose keys are a ring, on a store with a secret.
func gateAt(t *testing.T, r *Keyring, secret string, now *time.Time) *Gate {
	t.Helper()
	s, err := NewSessions([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return &Gate{Keys: r, Sessions: s, Now: func() time.Time { return *now }}
}

// TestSessionsOfBrowsers: what a session is, on which nodes it is one, and when it ends.
func TestSessionsOfBrowsers(t *testing.T) {
	r, k, secret := ring(t, carillon.NewKey{})
	now := noon
	one, other := gateAt(t, r, "secret of the store", &now), gateAt(t, r, "another secret", &now)
	session, p, err := one.Login(secret)
	if err != nil || p.ID != k.ID || !p.Expires.Equal(noon.Add(SessionLife)) {
		t.Fatal(p, err)
	}
	by := func(g *Gate, s Shown) error { _, err := g.Identify(t.Context(), s); return err }
	if err := by(gateAt(t, r, "secret of the store", &now), Shown{Session: session}); err != nil {
		t.Errorf("on another node: %v", err)
	}
	for i := range len(session) * 8 {
		b := []byte(session)
		b[i/8] ^= 1 << (i % 8)
		if err := by(one, Shown{Session: string(b)}); !errors.Is(err, carillon.Unauthenticated) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for what, s := range map[string]Shown{
		"half":            {Session: session[:len(session)/2]},
		"a byte more":     {Session: session + "AA"},
		"a key":           {Session: secret},
		"beside a key":    {Session: session, Authorization: []string{"Bearer " + secret}},
		"as bearer token": {Authorization: []string{"Bearer " + session}},
		"sealed nothing":  {Session: base64.RawURLEncoding.EncodeToString(one.Sessions.aead.Seal(nil, nil, nil, nil))},
		"too long a life": {Session: one.Sessions.seal(k.ID, k.Hash, noon, noon.Add(SessionLife+time.Second))},
		"another secret":  {Session: one.Sessions.seal(k.ID, Hash{1}, noon, noon.Add(time.Hour))},
	} {
		if err := by(one, s); !errors.Is(err, carillon.Unauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := by(other, Shown{Session: session}); !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("on another store: %v", err)
	}
	now = noon.Add(SessionLife)
	if err := by(one, Shown{Session: session}); !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("after its end: %v", err)
	}
}

// TestSessionsEndWithTheirSecret: of a key that is rotated, revoked, or expires.
func TestSessionsEndWithTheirSecret(t *testing.T) {
	r, k, secret := ring(t, carillon.NewKey{Expires: noon.Add(2 * time.Hour)})
	now := noon
	g := gateAt(t, r, "secret", &now)
	session, p, err := g.Login(secret)
	if err != nil || !p.Expires.Equal(k.Expires) {
		t.Fatal(p, err)
	}
	opens := func(want bool, when string) {
		t.Helper()
		if _, err := g.Identify(t.Context(), Shown{Session: session}); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	next, _ := k.Rotate("test", time.Hour, noon)
	r.Replace([]Key{next})
	opens(true, "during the overlap")
	now = noon.Add(time.Hour)
	opens(false, "after the overlap")
	now = noon
	r.Replace([]Key{k})
	opens(true, "with the key")
	now = k.Expires
	opens(false, "after the key's end")
	now = noon
	at, _ := k.Rotate("test", 0, noon)
	r.Replace([]Key{at})
	opens(false, "after a rotation at once")
	r.Replace(nil)
	opens(false, "after the key was revoked")
	if _, _, err := g.Login(secret); !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("a revoked key logs in: %v", err)
	}
}
