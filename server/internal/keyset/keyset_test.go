package keyset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/mac"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// made is a file with a key.
func made(t *testing.T, kek string) (File, *Keys) {
	t.Helper()
	f := File{Path: filepath.Join(t.TempDir(), "keys.json"), KEK: kek}
	k, err := f.Create()
	if err != nil {
		t.Fatal(err)
	}
	return f, k
}

// tinkFile is a file as Tink makes it, of a kind of key.
func tinkFile(t *testing.T, template *tinkpb.KeyTemplate) File {
	t.Helper()
	h, err := keyset.NewHandle(template)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(h, keyset.NewJSONWriter(&text)); err != nil {
		t.Fatal(err)
	}
	return written(t, text.String())
}

func written(t *testing.T, text string) File {
	t.Helper()
	f := File{Path: filepath.Join(t.TempDir(), "keys.json")}
	if err := os.WriteFile(f.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestARotation: a key that was added decrypts what it will encrypt once it is promoted, and the ones before
// decrypt until they are removed.
func TestARotation(t *testing.T) {
	f, first := made(t, "")
	if info, err := os.Stat(f.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of a new file: %v, %v", info.Mode(), err)
	}
	if _, err := f.Create(); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("made again: %v", err)
	}
	bound := []byte("bound")
	sealed := func(k *Keys) []byte {
		t.Helper()
		b, err := k.Encrypt([]byte("x"), bound)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	opens := func(k *Keys, b []byte) bool {
		plain, err := k.Decrypt(b, bound)
		return err == nil && string(plain) == "x"
	}
	with, id, err := f.Add()
	if err != nil || with.Primary() != first.Primary() || !with.Has(id) || first.Has(id) {
		t.Fatalf("added: %+v, %v", with, err)
	}
	second, err := f.Promote(id)
	if err != nil || second.Primary() != id {
		t.Fatal(second, err)
	}
	if old, next := sealed(first), sealed(second); !opens(second, old) || !opens(with, next) || opens(first, next) ||
		!opens(first, old) {
		t.Error("who decrypts what")
	}
	if _, err := f.Remove(id); err == nil || !strings.Contains(err.Error(), "promote another one before") {
		t.Errorf("the primary one is removed: %v", err)
	}
	last, err := f.Remove(first.Primary())
	if err != nil || last.Has(first.Primary()) || opens(last, sealed(first)) {
		t.Errorf("removed: %+v, %v", last, err)
	}
	read, err := f.Read()
	if err != nil || fmt.Sprint(read.List()) != fmt.Sprint(last.List()) {
		t.Errorf("read: %v, %v", read, err)
	}
	for what, err := range map[string]error{
		"promoted": second2(f.Promote(id + 1)), "removed": second2(f.Remove(id + 1)),
		"promoted again": second2(f.Promote(id)),
	} {
		if err == nil || !strings.Contains(err.Error(), f.Path) {
			t.Errorf("a key that is not there is %s: %v", what, err)
		}
	}
}

func second2(_ *Keys, err error) error { return err }

// TestFilesThatAreRefused, each by what is wrong with it.
func TestFilesThatAreRefused(t *testing.T) {
	open := tinkFile(t, aead.XChaCha20Poly1305KeyTemplate())
	if err := os.Chmod(open.Path, 0o604); err != nil {
		t.Fatal(err)
	}
	kek, _ := made(t, "")
	withKEK, _ := made(t, "file:"+kek.Path)
	plain, _ := made(t, "")
	otherKEK, _ := made(t, "")
	for want, f := range map[string]File{
		"not a Tink keyset":      written(t, "secret: 1"),
		"it is not a Tink":       written(t, `{"primaryKeyId":1,"key":[{"keyData":"secret"}]}`),
		"mode is 0604":           open,
		"short nonces repeat":    tinkFile(t, aead.AES256GCMKeyTemplate()),
		"it must be TINK":        tinkFile(t, aead.AES256GCMNoPrefixKeyTemplate()),
		"does not encrypt":       tinkFile(t, mac.HMACSHA256Tag256KeyTemplate()),
		"say with which key":     {Path: withKEK.Path},
		"does not decrypt it":    {Path: withKEK.Path, KEK: "file:" + otherKEK.Path},
		"is not encrypted":       {Path: plain.Path, KEK: "file:" + kek.Path},
		"has no KMS \"gcp-kms\"": {Path: withKEK.Path, KEK: "gcp-kms://x"},
		"no such file":           {Path: filepath.Join(t.TempDir(), "none")},
	} {
		_, err := f.Read()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, good := range []*tinkpb.KeyTemplate{aead.XAES256GCM192BitNonceKeyTemplate(), aead.AES256GCMSIVKeyTemplate(),
		aead.AES256CTRHMACSHA256KeyTemplate()} {
		if _, err := tinkFile(t, good).Read(); err != nil {
			t.Errorf("%s: %v", good.GetTypeUrl(), err)
		}
	}
}

// TestAFileEncryptedByAKMS: by a key that is a file, and by a client that the program has registered with Tink.
func TestAFileEncryptedByAKMS(t *testing.T) {
	kek, _ := made(t, "")
	f, k := made(t, "file:"+kek.Path)
	if _, _, err := f.Add(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(f.Path); err != nil || !bytes.Contains(text, []byte("encryptedKeyset")) {
		t.Errorf("%s, %v", text, err)
	}
	read, err := f.Read()
	if err != nil || len(read.List()) != 2 || read.Primary() != k.Primary() {
		t.Errorf("%+v, %v", read, err)
	}
	registry.RegisterKMSClient(stranger{kek})
	defer registry.ClearKMSClients()
	if _, err := (File{Path: f.Path, KEK: "stranger://key"}).Read(); err != nil {
		t.Error(err)
	}
}

// stranger is a KMS of its own.
type stranger struct{ kek File }

func (stranger) Supported(uri string) bool { return strings.HasPrefix(uri, "stranger:") }

func (s stranger) GetAEAD(string) (tink.AEAD, error) { return fileKMS{}.GetAEAD("file:" + s.kek.Path) }

// TestStreams of all lengths around those of segments come back, and none that was changed does.
func TestStreams(t *testing.T) {
	_, k := made(t, "")
	s, bound := NewSet(k), []byte("bound")
	const first, others = streamSegment - streamTag - streamSalt, streamSegment - streamTag
	for _, n := range []int{0, 1, first - 1, first, first + 1, first + others - 1, first + others, first + others + 1, 300_000} {
		plain := bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
		var sealed bytes.Buffer
		w, err := s.EncryptStream(&sealed, bound)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if int64(sealed.Len()) != StreamSize(int64(n)) || n > 20 && bytes.Contains(sealed.Bytes(), []byte("0123456789")) {
			t.Errorf("%d bytes are %d, not %d", n, sealed.Len(), StreamSize(int64(n)))
		}
		opened := func(s *Set, b, bound []byte) ([]byte, error) {
			r, err := s.DecryptStream(bytes.NewReader(b), bound)
			if err != nil {
				return nil, err
			}
			return io.ReadAll(r)
		}
		if got, err := opened(s, sealed.Bytes(), bound); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes come back as %d, %v", n, len(got), err)
		}
		for _, at := range []int{0, 2, 7, 40, streamHead, streamHead + 1, streamHead + 20, sealed.Len() - 1} {
			flipped := bytes.Clone(sealed.Bytes())
			flipped[at] ^= 1
			if _, err := opened(s, flipped, bound); err == nil {
				t.Errorf("%d bytes: byte %d is changed, and nobody notices", n, at)
			}
		}
		if _, err := opened(s, sealed.Bytes()[:sealed.Len()-1], bound); err == nil {
			t.Errorf("%d bytes: it is cut off, and nobody notices", n)
		}
		if n > first && n > streamSegment {
			if _, err := opened(s, sealed.Bytes()[:streamHead+streamSegment], bound); err == nil {
				t.Errorf("%d bytes: segments are cut off, and nobody notices", n)
			}
		}
		if _, err := opened(s, sealed.Bytes(), []byte("another")); err == nil {
			t.Errorf("%d bytes: it is bound to something else, and nobody notices", n)
		}
		_, other := made(t, "")
		if _, err := opened(NewSet(other), sealed.Bytes(), bound); !errors.As(err, new(*NoKey)) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%08x", k.Primary())) {
			t.Errorf("without the key: %v", err)
		}
	}
}
