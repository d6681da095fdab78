package payload

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
)

// TestAReaderGivesAllOrFails: whatever an object holds, and however it is read, who has read to the end has
// what was stored. Otherwise the last byte did not come.
func TestAReaderGivesAllOrFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "data")
		ref := carillon.PayloadRef{SHA256: sha256.Sum256(data), Size: int64(len(data))}
		held := data
		if rapid.Bool().Draw(t, "damaged") {
			held = rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "held")
		}
		from := io.Reader(bytes.NewReader(held))
		switch rapid.IntRange(0, 3).Draw(t, "manner") {
		case 1:
			from = iotest.OneByteReader(from)
		case 2:
			from = iotest.DataErrReader(from)
		case 3:
			from = iotest.HalfReader(from)
		}
		v := verify(io.NopCloser(from), ref)
		got, err := readBy(v, rapid.IntRange(1, 70).Draw(t, "buffer"))
		right := bytes.HasPrefix(held, data) // the store looks at the length before
		switch {
		case right && (err != nil || !bytes.Equal(got, data)):
			t.Fatalf("%v of %v: %v", got, data, err)
		case !right && (!errors.Is(err, carillon.DataLoss) || len(got) >= len(data)):
			t.Fatalf("%v of %v, where there is %v: %v", got, data, held, err)
		}
	})
}

// TestABrokenReadIsNoDamage: it may pass.
func TestABrokenReadIsNoDamage(t *testing.T) {
	data := []byte("0123456789")
	ref := carillon.PayloadRef{SHA256: sha256.Sum256(data), Size: int64(len(data))}
	for n := range data {
		for _, broken := range []error{io.ErrUnexpectedEOF, fmt.Errorf("read: %w", io.EOF), errors.New("reset")} {
			from := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken))
			v := verify(io.NopCloser(from), ref)
			if _, err := io.ReadAll(v); !errors.Is(err, broken) {
				t.Errorf("after %d bytes: %v, want %v", n, err, broken)
			}
			c := &content{store: &Store{o: Options{Log: slog.New(slog.DiscardHandler)}}, ctx: t.Context(), from: v}
			_, err := c.Read(make([]byte, 1))
			if !errors.Is(err, carillon.Unavailable) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("after %d bytes, the store says %v for %v", n, err, broken)
			}
		}
	}
}

func readBy(r io.Reader, n int) (got []byte, err error) {
	for b := make([]byte, n); ; {
		n, err := r.Read(b)
		got = append(got, b[:n]...)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
}

func TestNamesInOrder(t *testing.T) {
	for _, c := range []struct {
		name, after string
		want        bool
	}{
		{"a/b", "", true}, {"a/b", "a/b", false}, {"a/c", "a/b", true}, {"a/b", "a/c", false},
		{"a-b/a", "a/z", true}, {"a/z", "a-b/a", false}, {"a/b/c", "a/b", true}, {"a", "a/b", false},
	} {
		if got := later(c.name, c.after); got != c.want {
			t.Errorf("%q after %q: %v", c.name, c.after, got)
		}
	}
}
