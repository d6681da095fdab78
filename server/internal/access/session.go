package access

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
)

// Sessions seal what a browser shows in place of an API key: the key's id, which of its secrets it was, and
// until when. Nothing of it is kept: each node of the store opens it, and asks the key each time, so that a
// session ends with the secret.
type Sessions struct{ aead cipher.AEAD }

// SessionLife is how long a session lasts.
const SessionLife = 12 * time.Hour

// A session is the id of a key, the hash of the secret, and in seconds since 1970 when it began and when it
// ends.
const sessionBytes = idChars + sha256.Size + 8 + 8

// errSession is the answer to every session that opens nothing.
var errSession = carillon.Errorf(carillon.Unauthenticated, "", "the session is over, or is none of this store: log in again")

// NewSessions makes them of the secret that all nodes of a store have.
func NewSessions(secret []byte) (*Sessions, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "carillon session of a browser, 1", 32)
	if err != nil {
		return nil, fmt.Errorf("the key of sessions: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("the key of sessions: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sessions{aead: aead}, err
}

// seal makes a session.
func (s *Sessions) seal(id string, hash Hash, began, ends time.Time) string {
	plain := append([]byte(id), hash[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(began.Unix()))
	plain = binary.BigEndian.AppendUint64(plain, uint64(ends.Unix()))
	sealed := s.aead.Seal(nil, nil, plain, nil) //nolint:gosec // NewGCMWithRandomNonce makes the nonce
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// open returns what a session says, if it is one that lasts at now.
func (s *Sessions) open(text string, now time.Time) (id string, hash Hash, ends time.Time, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return "", hash, ends, false
	}
	plain, err := s.aead.Open(nil, nil, raw, nil)
	if err != nil || len(plain) != sessionBytes {
		return "", hash, ends, false
	}
	copy(hash[:], plain[idChars:])
	times := plain[idChars+sha256.Size:]
	began, ends := int64(binary.BigEndian.Uint64(times)), time.Unix(int64(binary.BigEndian.Uint64(times[8:])), 0)
	lasts := now.Before(ends) && ends.Sub(time.Unix(began, 0)) <= SessionLife
	return string(plain[:idChars]), hash, ends.UTC(), lasts
}

// Login returns a session for an API key, who that is, and when the session ends.
func (g *Gate) Login(key string) (session string, p *Principal, err error) {
	if g.Keys == nil || g.Sessions == nil {
		return "", nil, carillon.Errorf(carillon.FailedPrecondition, "", "this node takes no API keys: %s", g.takes())
	}
	id, hash, ok := parse(key)
	if !ok {
		return "", nil, errKey
	}
	now := g.Now()
	p, err = g.Keys.byHash(id, hash, now)
	if err != nil {
		return "", nil, err
	}
	p.endAt(now.Add(SessionLife).Truncate(time.Second).UTC())
	return g.Sessions.seal(id, hash, now, p.Expires), p, nil
}

// ofSession returns the principal of a session.
func (g *Gate) ofSession(session string) (*Principal, error) {
	if g.Keys == nil || g.Sessions == nil {
		return nil, errSession
	}
	id, hash, ends, ok := g.Sessions.open(session, g.Now())
	if !ok {
		return nil, errSession
	}
	p, err := g.Keys.byHash(id, hash, g.Now())
	if err != nil {
		return nil, err
	}
	p.endAt(ends)
	return p, nil
}

// endAt has a principal's credential end at a time, if it does not earlier.
func (p *Principal) endAt(at time.Time) {
	if p.Expires.IsZero() || at.Before(p.Expires) {
		p.Expires = at
	}
}
