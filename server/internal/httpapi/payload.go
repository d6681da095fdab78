package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
)

// textBytes is a JSON string as bytes: the text itself.
func textBytes(path string, raw []byte, _ protoreflect.FieldDescriptor) (protoreflect.Value, error) {
	s, err := stringOf(path, raw)
	return protoreflect.ValueOfBytes([]byte(s)), err
}

// fromBase64 reads base64 in the standard or the URL alphabet, padded or not.
func fromBase64(path, s string) ([]byte, error) {
	standard := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	raw, err := base64.RawStdEncoding.DecodeString(standard)
	if err != nil {
		return nil, invalid(path, "not base64")
	}
	return raw, nil
}

// defaultContentType says that a payload given as JSON is JSON, unless the caller said something else.
func defaultContentType(m protoreflect.Message, seen seenFields) {
	if seen["data"] == "data" && contentType(m) == "" {
		m.Set(contentTypeField(m), protoreflect.ValueOfString(carillon.ContentTypeJSON))
	}
}

// contentType is the type of a message's payload.
func contentType(m protoreflect.Message) string { return m.Get(contentTypeField(m)).String() }

func contentTypeField(m protoreflect.Message) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName("content_type")
}

// isJSON reports whether bytes can be shown as they are: their type says JSON, and they are.
func isJSON(contentType string, raw []byte) bool {
	if contentType != carillon.ContentTypeJSON {
		media, _, err := mime.ParseMediaType(contentType)
		if err != nil || media != carillon.ContentTypeJSON && !strings.HasSuffix(media, "+json") {
			return false
		}
	}
	return json.Valid(raw)
}
