package worker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"

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

// encode encodes what a handler returned. It returns nil if that is nil, and if it is the zero value beside
// an error.
func encode[Out any](out Out, failed bool) (result []byte, err error) {
	switch out := any(out).(type) {
	case []byte:
		result = out
	case carillon.Data:
		result = out.Bytes
	default:
		if v := reflect.ValueOf(out); !v.IsValid() || v.IsZero() && (failed || nilable(v.Kind())) {
			return nil, nil
		}
		if result, err = json.Marshal(out); err != nil {
			return nil, fmt.Errorf("a %T cannot be written as JSON: %w", out, err)
		}
	}
	if len(result) > carillon.MaxResponse {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(result), carillon.MaxResponse)
	}
	return result, nil
}

// nilable reports whether the zero value of a kind is nil.
func nilable(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Map || k == reflect.Slice || k == reflect.Interface
}
