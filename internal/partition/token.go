package partition

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// Token says which attempt a result belongs to: the grant's own ownership term and generation, the run and the attempt.
// It is authenticated and compared for equality with what the run's state holds, so it survives takeover and restart.
type Token struct {
	Grant   store.Grant
	Run     carillon.RunIdentity
	Attempt int
}

// macSize is how many bytes of the HMAC-SHA-256 a token carries (RFC 2104 §5 allows half).
const macSize = 16

// maxToken is more than a token has bytes, with its MAC and as text.
const maxToken = 128

var tokenEncoding = base64.RawURLEncoding

// Sign writes the token with its MAC.
func (t Token) Sign(key []byte) string {
	var raw, text [maxToken]byte
	b := binary.BigEndian.AppendUint64(raw[:0], t.Grant.Term.Epoch)
	b = binary.BigEndian.AppendUint64(b, t.Grant.Term.Nonce)
	b = binary.AppendUvarint(b, t.Grant.Generation)
	b = binary.AppendUvarint(b, uint64(t.Attempt))
	b = t.Run.AppendBinary(b)
	sum := mac(key, b)
	b = append(b, sum[:]...)
	return string(tokenEncoding.AppendEncode(text[:0], b))
}

// ParseToken reads and authenticates a token.
func ParseToken(s string, key []byte) (Token, error) {
	var raw, text [maxToken]byte
	if len(s) > len(text) {
		return Token{}, badToken()
	}
	n, err := tokenEncoding.Decode(raw[:], text[:copy(text[:], s)])
	if err != nil || n < 16+2+macSize {
		return Token{}, badToken()
	}
	b, sum := raw[:n-macSize], mac(key, raw[:n-macSize])
	if !hmac.Equal(raw[n-macSize:n], sum[:]) {
		return Token{}, badToken()
	}
	var t Token
	t.Grant.Term = store.Term{Epoch: binary.BigEndian.Uint64(b), Nonce: binary.BigEndian.Uint64(b[8:])}
	b = b[16:]
	gen, n := binary.Uvarint(b)
	if n <= 0 {
		return Token{}, badToken()
	}
	attempt, k := binary.Uvarint(b[n:])
	if k <= 0 {
		return Token{}, badToken()
	}
	t.Grant.Generation, t.Attempt = gen, int(attempt)
	if t.Run, err = carillon.ParseRunIDBytes(b[n+k:]); err != nil {
		return Token{}, badToken()
	}
	return t, nil
}

func badToken() error {
	return carillon.Errorf(carillon.InvalidArgument, "token", "this is not a token of this store")
}

// mac is the beginning of the HMAC-SHA-256 (RFC 2104) of a message of at most maxToken bytes. It is written out because a
// token is made and read for every run, and crypto/hmac would allocate each time.
func mac(key, message []byte) (sum [macSize]byte) {
	var short [sha256.Size]byte
	if len(key) > sha256.BlockSize {
		short = sha256.Sum256(key)
		key = short[:]
	}
	var inner [sha256.BlockSize + maxToken]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	copy(inner[:], key)
	copy(outer[:], key)
	for i := range sha256.BlockSize {
		inner[i] ^= 0x36
		outer[i] ^= 0x5c
	}
	digest := sha256.Sum256(inner[:sha256.BlockSize+copy(inner[sha256.BlockSize:], message)])
	copy(outer[sha256.BlockSize:], digest[:])
	digest = sha256.Sum256(outer[:])
	copy(sum[:], digest[:])
	return sum
}
