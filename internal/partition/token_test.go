package partition_test

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

var macKey = []byte("0123456789abcdef0123456789abcdef")

func someToken(attempt int) partition.Token {
	return partition.Token{
		Grant: store.Grant{Term: store.Term{Epoch: 7, Nonce: 9}, Generation: 300}, Attempt: attempt,
		Run: carillon.RunIdentity{Partition: 3, UID: carillon.UID{1, 2, 3}, Scheduled: epoch, Cause: carillon.CauseTrigger, Seq: 77},
	}
}

// TestASignerIsUsedAgain: what a signer has written or read leaves no trace in what it writes and reads next.
func TestASignerIsUsedAgain(t *testing.T) {
	s := partition.NewSigner(macKey)
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

func BenchmarkSign(b *testing.B) {
	s, tok := partition.NewSigner(macKey), someToken(1)
	b.ReportAllocs()
	for b.Loop() {
		s.Sign(tok)
	}
}

func BenchmarkParseToken(b *testing.B) {
	s := partition.NewSigner(macKey)
	text := s.Sign(someToken(1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
