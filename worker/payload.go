package worker

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/carillonhq/carillon"
)

// decode decodes a payload into a handler's input. A failure is permanent: it would be the same next time.
func decode[T any](data carillon.Data) (in T, err error) {
	switch to := any(&in).(type) {
	case *[]byte:
		*to = data.Bytes
	case *carillon.Data:
		*to = data
	default:
		if len(data.Bytes) == 0 {
			return in, nil
		}
		if err := json.Unmarshal(data.Bytes, &in); err != nil {
			return in, Discard(fmt.Errorf("the payload (%d bytes, %s) is no %T: %w", len(data.Bytes),
				cmp.Or(data.ContentType, "of no content type"), in, err))
		}
	}
	return in, nil
}
