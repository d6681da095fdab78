package keyset

import (
	"fmt"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// fileKMS is the KMS that needs no service: a key is a file, with a keyset in the clear. That file is kept
// elsewhere than the one that it encrypts: in a secret of the orchestrator, or on another volume.
type fileKMS struct{}

const fileScheme = "file:"

var _ registry.KMSClient = fileKMS{}

// Supported implements [registry.KMSClient].
func (fileKMS) Supported(uri string) bool { return strings.HasPrefix(uri, fileScheme) }

// GetAEAD implements [registry.KMSClient].
func (fileKMS) GetAEAD(uri string) (tink.AEAD, error) {
	h, err := File{Path: strings.TrimPrefix(uri, fileScheme)}.handle()
	if err != nil {
		return nil, err
	}
	return aead.New(h)
}

// kekOf returns the key of a URI: of a file, or of a KMS whose client the program has registered with Tink
// (registry.RegisterKMSClient). It is asked once each time that the file of keys is read.
func kekOf(uri string) (tink.AEAD, error) {
	client := registry.KMSClient(fileKMS{})
	if !client.Supported(uri) {
		var err error
		if client, err = registry.GetKMSClient(uri); err != nil {
			scheme, _, _ := strings.Cut(uri, ":")
			return nil, fmt.Errorf("--encryption-kek: this program has no KMS %.32q: it has file:PATH; "+
				"docs/security.md says how a program gets others", scheme)
		}
	}
	key, err := client.GetAEAD(uri)
	if err != nil {
		return nil, fmt.Errorf("--encryption-kek: %w", err)
	}
	return key, nil
}
