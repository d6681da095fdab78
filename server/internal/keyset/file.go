package keyset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"

	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

// File is where keys are.
type File struct {
	Path string
	// KEK is the URI of the key that the file is encrypted with (kms.go). Empty: the file is in the clear.
	KEK string
}

// Read reads the keys of a file.
func (f File) Read() (*Keys, error) {
	h, err := f.handle()
	if err != nil {
		return nil, err
	}
	k, err := keysOf(h)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return k, nil
}

// handle reads a file as Tink has it.
func (f File) handle() (*keyset.Handle, error) {
	text, err := yamlfile.Bytes(f.Path)
	if err != nil {
		return nil, err
	}
	h, err := f.parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return h, nil
}

// errForm is the error of a file that is no keyset. Tink's own errors may quote what is there.
var errForm = errors.New("it is not a Tink keyset in JSON: make one with carillon encryption-key create")

func (f File) parse(text []byte) (*keyset.Handle, error) {
	var form struct {
		Encrypted *string         `json:"encryptedKeyset"`
		Keys      json.RawMessage `json:"key"`
	}
	if err := json.Unmarshal(text, &form); err != nil || (form.Encrypted == nil) == (form.Keys == nil) {
		return nil, errForm
	}
	in := keyset.NewJSONReader(bytes.NewReader(text))
	switch {
	case form.Encrypted != nil && f.KEK == "":
		return nil, errors.New("it is encrypted: say with which key (--encryption-kek)")
	case form.Encrypted != nil:
		kek, err := kekOf(f.KEK)
		if err != nil {
			return nil, err
		}
		h, err := keyset.Read(in, kek)
		if err != nil {
			return nil, fmt.Errorf("the key %s does not decrypt it", f.KEK)
		}
		return h, nil
	case f.KEK != "":
		return nil, errors.New("it is not encrypted, although there is a key for that (--encryption-kek): encrypt it, " +
			"or leave the key out")
	}
	if err := checkMode(f.Path); err != nil {
		return nil, err
	}
	h, err := insecurecleartextkeyset.Read(in)
	if err != nil {
		return nil, errForm
	}
	return h, nil
}

// checkMode refuses a file with keys in the clear that anybody may read.
func checkMode(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("its mode is %#o: others than its owner and its group must not read it (chmod 600)", mode)
	}
	return nil
}

// Types of keys, as Tink calls them. The nonces of a primary key are drawn at random for each record: it must
// be of a type with which that is safe for as many as a store ever writes.
const typePrefix = "type.googleapis.com/google.crypto.tink."

var (
	writes = map[string]bool{"XChaCha20Poly1305Key": true, "XAesGcmKey": true, "AesCtrHmacAeadKey": true,
		"AesGcmSivKey": true}
	reads = map[string]bool{"AesGcmKey": true, "ChaCha20Poly1305Key": true}
)

// keysOf takes the keys of a keyset, and refuses those that a store cannot be encrypted with.
func keysOf(h *keyset.Handle) (*Keys, error) {
	info := h.KeysetInfo()
	k := &Keys{primary: info.GetPrimaryKeyId()}
	for _, i := range info.GetKeyInfo() {
		id, kind := i.GetKeyId(), strings.TrimPrefix(i.GetTypeUrl(), typePrefix)
		enabled, primary := i.GetStatus() == tinkpb.KeyStatusType_ENABLED, i.GetKeyId() == k.primary
		k.list = append(k.list, Key{ID: id, Type: strings.TrimSuffix(kind, "Key"), Enabled: enabled,
			Primary: primary})
		switch {
		case !enabled:
			continue
		case i.GetOutputPrefixType() != tinkpb.OutputPrefixType_TINK:
			return nil, fmt.Errorf("key %08x has the prefix %s: it must be TINK, which puts the id of the key before "+
				"what it encrypts", id, i.GetOutputPrefixType())
		case !writes[kind] && !reads[kind]:
			return nil, fmt.Errorf("key %08x is of the type %.64s, which does not encrypt records: take XCHACHA20_POLY1305", id, kind)
		case primary && !writes[kind]:
			return nil, fmt.Errorf("the primary key %08x is of the type %s, whose short nonces repeat after some billion "+
				"records: take XCHACHA20_POLY1305 or X_AES_GCM", id, strings.TrimSuffix(kind, "Key"))
		}
		k.ids = append(k.ids, id)
	}
	var err error
	if k.aead, err = aead.New(h); err != nil {
		return nil, errForm
	}
	return k, nil
}
