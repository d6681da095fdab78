package message_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

var macKey = []byte("0123456789abcdef0123456789abcdef")

func someToken(attempt int) message.Token {
	return message.Token{
		Grant: store.Grant{Term: store.Term{Epoch: 7, Nonce: 9}, Generation: 300}, Attempt: attempt,
		Run: store.RunID{Partition: 3, UID: carillon.UID{1, 2, 3}, Scheduled: 1_767_225_600_000_000_000,
			Cause: carillon.CauseTrigger, Seq: 77},
	}
}

// TestASignerIsUsedAgain: earlier tokens leave no trace in what a signer writes and reads next.
func TestASignerIsUsedAgain(t *testing.T) {
	s := message.NewSigner(macKey)
	for i := range 1000 {
		tok := someToken(i)
		text := s.Sign(tok)
		if want := tok.Sign(macKey); text != want {
			t.Fatalf("signed %s, want %s", text, want)
		}
		if _, err := s.Parse(text[:len(text)-i%len(text)-1]); err == nil {
			t.Fatal("a clipped token is believed")
		}
		if got, err := s.Parse(text); err != nil || got != tok {
			t.Fatalf("%+v %v", got, err)
		}
	}
}

// randomToken fills a token, and the key that signs it, with anything they can hold.
func randomToken(r *rand.Rand) (tok message.Token, key []byte) {
	key = make([]byte, r.IntN(3*sha256.BlockSize))
	for i := range key {
		key[i] = byte(r.Uint32())
	}
	tok.Grant = store.Grant{Term: store.Term{Epoch: r.Uint64(), Nonce: r.Uint64()},
		Generation: r.Uint64() >> r.IntN(64)}
	tok.Attempt = int(r.Uint64() >> (1 + r.IntN(63)))
	tok.Run = store.RunID{Partition: uint16(r.Uint32()), Scheduled: int64(r.Uint64()),
		Cause: carillon.CauseTrigger, Seq: r.Uint64() >> r.IntN(64)}
	for i := range tok.Run.UID {
		tok.Run.UID[i] = byte(r.Uint32())
	}
	return tok, key
}

// A token carries half of the standard library's HMAC, is decoded unchanged, and is refused with another key
// or if it was changed.
func TestTokensAreHeldAgainstTheStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		tok, key := randomToken(r)
		text := tok.Sign(key)
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		h := hmac.New(sha256.New, key)
		h.Write(raw[:len(raw)-16])
		if !bytes.Equal(h.Sum(nil)[:16], raw[len(raw)-16:]) {
			t.Fatalf("the MAC of a token of %d bytes by a key of %d is not HMAC-SHA-256", len(raw), len(key))
		}
		if got, err := message.ParseToken(text, key); err != nil || got != tok {
			t.Fatalf("%+v came back as %+v, %v", tok, got, err)
		}
		if _, err := message.ParseToken(text, append([]byte{1}, key...)); err == nil {
			t.Fatal("a token of another key was accepted")
		}
		raw[r.IntN(len(raw))] ^= 1 << r.IntN(8)
		if _, err := message.ParseToken(base64.RawURLEncoding.EncodeToString(raw), key); err == nil {
			t.Fatal("a changed token was accepted")
		}
	}
	for _, bad := range []string{"", "a", "?", strings.Repeat("A", 40), strings.Repeat("A", 128),
		strings.Repeat("A", 1<<16)} {
		if _, err := message.ParseToken(bad, nil); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("token of %d bytes: %v", len(bad), err)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	s, tok := message.NewSigner(macKey), someToken(1)
	b.ReportAllocs()
	for b.Loop() {
		s.Sign(tok)
	}
}

func BenchmarkParseToken(b *testing.B) {
	s := message.NewSigner(macKey)
	text := s.Sign(someToken(1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTokens(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	tok := message.Token{
		Grant: store.Grant{Term: store.Term{Epoch: 7, Nonce: 9}, Generation: 300}, Attempt: 2,
		Run: store.RunID{Partition: 3, UID: carillon.UID{1, 2, 3}, Scheduled: 1e18,
			Cause: carillon.CauseTrigger, Seq: 77},
	}
	s := tok.Sign(key)
	got, err := message.ParseToken(s, key)
	if err != nil || got != tok {
		t.Fatalf("%+v %v", got, err)
	}
	for i := range len(s) {
		flipped := []byte(s)
		if flipped[i] == 'A' {
			flipped[i] = 'B'
		} else {
			flipped[i] = 'A'
		}
		if forged, err := message.ParseToken(string(flipped), key); err == nil && forged != tok {
			t.Fatalf("byte %d changed and the token is believed", i)
		}
	}
	if _, err := message.ParseToken(s, []byte("another key")); err == nil {
		t.Fatal("believed under another key")
	}
}

// TestPartitionOfToken: it is that of the run's job among as many partitions as there are, whatever partition
// the run id names.
func TestPartitionOfToken(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		k := carillon.Key{Namespace: "default", Name: strings.Repeat("x", i)}
		tok, key := randomToken(r)
		tok.Run.UID = store.NewUID(k, [8]byte{1})
		for _, n := range []int{1, 2, 64, store.MaxPartitions} {
			if p, ok := message.PartitionOfToken(tok.Sign(key), n); !ok || p != store.PartitionOf(k, n) {
				t.Errorf("%d of %d partitions, %t; want %d", p, n, ok, store.PartitionOf(k, n))
			}
		}
	}
	if p, ok := message.PartitionOfToken("no token", 64); ok {
		t.Errorf("no token leads to partition %d", p)
	}
}
