package message

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Token names an attempt: the term and generation of its grant, its run and its number. It is authenticated,
// and compared for equality with the run's state, so it stays valid across takeovers and restarts.
type Token struct {
	Grant   store.Grant
	Run     store.RunID
	Attempt int
}

// macSize is how many bytes of the HMAC-SHA-256 a token carries (RFC 2104 §5 allows half).
const macSize = 16

var tokenEncoding = base64.RawURLEncoding

// Sign encodes the token with its MAC.
func (t Token) Sign(key []byte) string { return NewSigner(key).Sign(t) }

// ParseToken decodes and authenticates a token.
func ParseToken(text string, key []byte) (Token, error) { return NewSigner(key).Parse(text) }

// PartitionOfToken returns the partition, of n, of the run that a token names, without authenticating it; ok
// is false if text is not a token.
func PartitionOfToken(text string, n int) (partition int, ok bool) {
	raw, err := tokenEncoding.DecodeString(text)
	if err != nil || len(raw) < 16+2+macSize {
		return 0, false
	}
	tok, ok := readToken(raw[:len(raw)-macSize])
	return int(tok.Run.In(n).Partition), ok
}

// Signer encodes and decodes tokens with one key. It is for one goroutine at a time. It reuses the keyed MAC
// and its memory: each run needs it twice, and a new MAC takes five times as long.
type Signer struct {
	mac hash.Hash
	raw []byte // of the current token
	sum []byte // its MAC
}

// NewSigner makes a signer with a key.
func NewSigner(key []byte) *Signer { return &Signer{mac: hmac.New(sha256.New, key)} }

// Sign encodes a token with its MAC.
func (s *Signer) Sign(t Token) string {
	b := binary.BigEndian.AppendUint64(s.raw[:0], t.Grant.Term.Epoch)
	b = binary.BigEndian.AppendUint64(b, t.Grant.Term.Nonce)
	b = binary.AppendUvarint(b, t.Grant.Generation)
	b = binary.AppendUvarint(b, uint64(t.Attempt))
	b = t.Run.AppendBinary(b)
	b = append(b, s.sumOf(b)...)
	s.raw = b
	return tokenEncoding.EncodeToString(b)
}

// Parse decodes and authenticates a token.
func (s *Signer) Parse(text string) (Token, error) {
	t, ok := s.parseUnchecked(text)
	if !ok {
		return Token{}, carillon.Errorf(carillon.InvalidArgument, "token", "this is not a token of this store")
	}
	return t, nil
}

func (s *Signer) parseUnchecked(text string) (t Token, ok bool) {
	var err error
	s.raw, err = tokenEncoding.AppendDecode(s.raw[:0], []byte(text))
	if err != nil || len(s.raw) < 16+2+macSize {
		return t, false
	}
	b, sum := s.raw[:len(s.raw)-macSize], s.raw[len(s.raw)-macSize:]
	if !hmac.Equal(sum, s.sumOf(b)) {
		return t, false
	}
	return readToken(b)
}

// readToken decodes what precedes the MAC, which must have at least 18 bytes.
func readToken(b []byte) (t Token, ok bool) {
	t.Grant.Term = store.Term{Epoch: binary.BigEndian.Uint64(b), Nonce: binary.BigEndian.Uint64(b[8:])}
	b = b[16:]
	gen, n := binary.Uvarint(b)
	if n <= 0 {
		return t, false
	}
	attempt, k := binary.Uvarint(b[n:])
	if k <= 0 {
		return t, false
	}
	t.Grant.Generation, t.Attempt = gen, int(attempt)
	var err error
	t.Run, err = store.DecodeRunID(b[n+k:])
	return t, err == nil
}

// sumOf returns the MAC of b. It is valid until the next call.
func (s *Signer) sumOf(b []byte) []byte {
	s.mac.Reset()
	s.mac.Write(b)
	s.sum = s.mac.Sum(s.sum[:0])
	return s.sum[:macSize]
}
