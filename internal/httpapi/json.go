package httpapi

import "google.golang.org/protobuf/proto"

// Marshal is a message of the API in the JSON of the REST face: what `carillon … -o json` prints.
func Marshal(m proto.Message) []byte { return encode(m) }

// Unmarshal reads the JSON of the REST face into m, which must be empty, and returns the names of the fields that were
// given: what `carillon job put -f` reads.
func Unmarshal(body []byte, m proto.Message) (given []string, err error) { return decode(body, m) }
