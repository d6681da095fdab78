package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// An API key is "ck_", a public id, "_", a secret and a checksum: so that a leaked one can be found and told
// from what only looks like one. Each part is base32 in lower case, without padding.
const (
	keyPrefix   = "ck_"
	idBytes     = 10
	secretBytes = 32
	idChars     = 16
	secretChars = 52 // of which the last has one bit of the secret
	sumChars    = 7
	keyChars    = len(keyPrefix) + idChars + 1 + secretChars + sumChars
)

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Hash is the SHA-256 of a secret. The secret has 256 random bits, so nothing slower is needed.
type Hash [sha256.Size]byte

// Key is an API key as it is kept.
type Key struct {
	carillon.AccessKey
	Hash   Hash
	Before Hash // of the secret before, which is valid until OverlapEnds; zero: there is none
}

// Mint makes an id and a key with a random secret, and what of the secret is kept.
func Mint() (id, key string, kept Hash) {
	id = random(idBytes)
	key, kept = secretOf(id)
	return id, key, kept
}

// secretOf makes a key with a random secret for an id, and what of the secret is kept.
func secretOf(id string) (key string, kept Hash) {
	secret := random(secretBytes)
	key = keyPrefix + id + "_" + secret
	return key + checksum(key), sha256.Sum256([]byte(secret))
}

// random returns n random bytes as they are written.
func random(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // it never fails
	return letters.EncodeToString(raw)
}

// New makes a key as it is asked for, at now, and its secret. What is asked for is valid.
func New(n carillon.NewKey, creator string, now time.Time) (k Key, secret string) {
	id, secret, hash := Mint()
	k = Key{Hash: hash, AccessKey: carillon.AccessKey{ID: id, Grants: n.Grants, Note: n.Note, Creator: creator,
		Created: now.UTC()}}
	if !n.Expires.IsZero() {
		k.Expires = n.Expires.UTC()
	}
	return k, secret
}

// Given makes a key of a text that somebody else has made, as Mint does; false: it is none.
func Given(text string, n carillon.NewKey, creator string, now time.Time) (k Key, ok bool) {
	id, hash, ok := parse(text)
	if !ok {
		return k, false
	}
	k, _ = New(n, creator, now)
	k.ID, k.Hash = id, hash
	return k, true
}

// Rotate returns the key as somebody gives it another secret at now, and that secret. The one before is
// valid for the overlap, too.
func (k Key) Rotate(rotator string, overlap time.Duration, now time.Time) (next Key, secret string) {
	next = k
	secret, next.Hash = secretOf(k.ID)
	next.Rotated, next.Rotator = now.UTC(), rotator
	next.Before, next.OverlapEnds = Hash{}, time.Time{}
	if overlap > 0 {
		next.Before, next.OverlapEnds = k.Hash, now.Add(overlap).UTC()
		if !k.Expires.IsZero() && k.Expires.Before(next.OverlapEnds) {
			next.OverlapEnds = k.Expires
		}
	}
	return next, secret
}

// Overlaps reports whether two secrets are valid at now.
func (k *Key) Overlaps(now time.Time) bool { return k.Before != (Hash{}) && now.Before(k.OverlapEnds) }

// Shown is what is told of the key at now: an overlap that is over is not.
func (k *Key) Shown(now time.Time) carillon.AccessKey {
	shown := k.AccessKey
	if !k.Overlaps(now) {
		shown.OverlapEnds = time.Time{}
	}
	return shown
}

// Expired reports whether the key has ended by itself at now.
func (k *Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// checksum is that of the rest of a key.
func checksum(rest string) string {
	return letters.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(rest))))
}

// parse takes a key apart; ok is false for a text that is none.
func parse(key string) (id string, hash Hash, ok bool) {
	if len(key) != keyChars || !strings.HasPrefix(key, keyPrefix) {
		return "", hash, false
	}
	rest, sum := key[:keyChars-sumChars], key[keyChars-sumChars:]
	if checksum(rest) != sum || rest[len(keyPrefix)+idChars] != '_' {
		return "", hash, false
	}
	id = rest[len(keyPrefix) : len(keyPrefix)+idChars]
	return id, sha256.Sum256([]byte(rest[len(keyPrefix)+idChars+1:])), true
}

// CheckID refuses what is no id of a key.
func CheckID(id string) error {
	if len(id) != idChars || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		// it is not repeated: it may be a whole key
		return carillon.Errorf(carillon.NotFound, "id", "there is no such key; an id has %d characters, as carillon key list shows it",
			idChars)
	}
	return nil
}

// NoKey is the error about a key that is not there.
func NoKey(id string) error {
	return carillon.Errorf(carillon.NotFound, "id", "there is no key %.32q", id)
}
