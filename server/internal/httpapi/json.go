package httpapi

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// Marshal is a message of the API in the JSON of the REST face: what `carillon … -o json` prints.
func Marshal(m proto.Message) []byte { return encode(m) }

// Unmarshal reads the JSON of the REST face into m, which must be empty, and returns the names of the fields
// that were given: what `carillon job put -f` reads.
func Unmarshal(body []byte, m proto.Message) (given []string, err error) { return decode(body, m) }

// UnmarshalPatch reads the body of a PATCH into m, which must be empty, and returns the fields that it names,
// of policies the parts: what `carillon job patch -f` reads.
func UnmarshalPatch(body []byte, m *pb.Job) (fields []string, err error) {
	given, err := decode(body, m)
	if err != nil {
		return nil, err
	}
	return patchPaths(body, given, m.ProtoReflect())
}
