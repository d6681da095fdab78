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

var tokenEncoding = base64.RawURLEncoding

// Sign writes the token with its MAC.
func (t Token) Sign(key []byte) string {
	var raw [128]byte
	b := binary.BigEndian.AppendUint64(raw[:0], t.Grant.Term.Epoch)
	b = binary.BigEndian.AppendUint64(b, t.Grant.Term.Nonce)
	b = binary.AppendUvarint(b, t.Grant.Generation)
	b = binary.AppendUvarint(b, uint64(t.Attempt))
	b = t.Run.AppendBinary(b)
	b = append(b, mac(key, b)...)
	return tokenEncoding.EncodeToString(b)
}

// ParseToken reads and authenticates a token.
func ParseToken(s string, key []byte) (Token, error) {
	bad := carillon.Errorf(carillon.InvalidArgument, "token", "this is not a token of this store")
	b, err := tokenEncoding.DecodeString(s)
	if err != nil || len(b) < 16+2+macSize {
		return Token{}, bad
	}
	b, sum := b[:len(b)-macSize], b[len(b)-macSize:]
	if !hmac.Equal(sum, mac(key, b)) {
		return Token{}, bad
	}
	var t Token
	t.Grant.Term = store.Term{Epoch: binary.BigEndian.Uint64(b), Nonce: binary.BigEndian.Uint64(b[8:])}
	b = b[16:]
	gen, n := binary.Uvarint(b)
	if n <= 0 {
		return Token{}, bad
	}
	attempt, k := binary.Uvarint(b[n:])
	if k <= 0 {
		return Token{}, bad
	}
	t.Grant.Generation, t.Attempt = gen, int(attempt)
	if t.Run, err = carillon.ParseRunIDBytes(b[n+k:]); err != nil {
		return Token{}, bad
	}
	return t, nil
}

func mac(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return h.Sum(nil)[:macSize]
}
