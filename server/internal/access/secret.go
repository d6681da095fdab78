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
	Hash Hash
}

// Mint makes an id and a key with a random secret, and what of the secret is kept.
func Mint() (id, key string, kept Hash) {
	var raw [idBytes + secretBytes]byte
	_, _ = rand.Read(raw[:]) // it never fails
	id, secret := letters.EncodeToString(raw[:idBytes]), letters.EncodeToString(raw[idBytes:])
	key = keyPrefix + id + "_" + secret
	return id, key + checksum(key), sha256.Sum256([]byte(secret))
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
