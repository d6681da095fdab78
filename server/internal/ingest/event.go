package ingest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Names of attributes of CloudEvents.
const (
	specVersion = "specversion"
	eventID     = "id"
	eventSource = "source"
	eventType   = "type"
	subject     = "subject"
	eventTime   = "time"
	dataType    = "datacontenttype"
	// ifGeneration is an extension: the generation of the job that a put or a delete is for.
	ifGeneration = "ifgeneration"
)

const (
	attributePrefix = "ce-"
	structuredType  = "application/cloudevents+json"
	structuredAny   = "application/cloudevents" // and what begins with it
	version         = "1.0"
	maxAttribute    = 4096 // bytes of an attribute that is looked at
)

// event is a CloudEvent, as far as it concerns a command.
type event struct {
	id, source, typ, subject string
	at                       time.Time // zero: it does not say
	ifGeneration             uint64    // 0: any
	data                     []byte    // JSON; nil: there is none
}

func invalid(field, format string, args ...any) error {
	return carillon.Errorf(carillon.InvalidArgument, field, format, args...)
}

// parse reads a message as a CloudEvent of version 1.0, in structured or binary mode.
func parse(d *broker.Delivery) (*event, error) {
	media := ""
	if d.ContentType != "" {
		var err error
		if media, _, err = mime.ParseMediaType(d.ContentType); err != nil {
			return nil, invalid("content-type", "%.100q is no media type: %v", d.ContentType, err)
		}
	}
	if strings.HasPrefix(media, structuredAny) {
		if media != structuredType {
			return nil, invalid("content-type", "%.100q is not supported; write %s, one event in a message", media,
				structuredType)
		}
		return structured(d.Data)
	}
	if d.Header(attributePrefix+specVersion) == "" {
		return nil, invalid(specVersion, "the message is no CloudEvent: it has neither the header of this attribute nor the "+
			"content type %s", structuredType)
	}
	attributes := map[string]string{}
	for _, h := range d.Headers {
		if name, is := strings.CutPrefix(h.Name, attributePrefix); is {
			if _, twice := attributes[name]; twice {
				return nil, invalid(name, "the attribute is given twice")
			}
			attributes[name] = h.Value
		}
	}
	e, err := ofAttributes(attributes)
	if err != nil {
		return nil, err
	}
	if len(d.Data) == 0 {
		return e, nil
	}
	if !isJSON(media) {
		return nil, invalid("content-type", "%.100q: the data must be JSON, of the content type application/json",
			d.ContentType)
	}
	e.data = d.Data
	return e, nil
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// structured reads an event that is one JSON object.
func structured(body []byte) (*event, error) {
	var members map[string]json.RawMessage
	if !utf8.Valid(body) {
		return nil, invalid("", "the event is not UTF-8")
	}
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, invalid("", "the event is no JSON object: %v", err)
	}
	attributes := map[string]string{}
	for name, raw := range members {
		if name == "data" || name == "data_base64" || string(raw) == "null" {
			continue
		}
		value, err := attribute(raw)
		if err != nil {
			return nil, invalid(name, "%v", err)
		}
		attributes[name] = value
	}
	e, err := ofAttributes(attributes)
	if err != nil {
		return nil, err
	}
	data, encoded := members["data"], members["data_base64"]
	given := func(m json.RawMessage) bool { return m != nil && string(m) != "null" }
	if t := attributes[dataType]; t != "" && (given(data) || given(encoded)) {
		if media, _, err := mime.ParseMediaType(t); err != nil || !isJSON(media) {
			return nil, invalid(dataType, "%.100q: the data must be JSON (application/json)", t)
		}
	}
	switch {
	case given(data) && given(encoded):
		return nil, invalid("data_base64", "data is given, too; give one of them")
	case given(data):
		e.data = data
	case given(encoded):
		var text string
		if err := json.Unmarshal(encoded, &text); err != nil {
			return nil, invalid("data_base64", "it is no text")
		}
		if e.data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, invalid("data_base64", "it is not base64: %v", err)
		}
	}
	return e, nil
}

// attribute returns the text of an attribute, which in JSON may be a text, a number or a boolean.
func attribute(raw json.RawMessage) (string, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case float64, bool:
		return string(raw), nil
	}
	return "", fmt.Errorf("an attribute is a text, a number or a boolean")
}

// ofAttributes checks the attributes that concern a command.
func ofAttributes(a map[string]string) (*event, error) {
	e := &event{id: a[eventID], source: a[eventSource], typ: a[eventType], subject: a[subject]}
	for _, name := range []string{specVersion, eventID, eventSource, eventType, subject, eventTime,
		ifGeneration} {
		if len(a[name]) > maxAttribute || !utf8.ValidString(a[name]) {
			return nil, invalid(name, "it is longer than %d bytes, or not UTF-8", maxAttribute)
		}
	}
	switch {
	case a[specVersion] != version:
		return nil, invalid(specVersion, "%.20q is not %s", a[specVersion], version)
	case e.id == "":
		return nil, invalid(eventID, "it is missing: it tells a repeated event of a source from a new one")
	case e.source == "":
		return nil, invalid(eventSource, "it is missing: say who sends the event, such as /shop")
	case e.typ == "":
		return nil, invalid(eventType, "it is missing; give one of %s", strings.Join(Types, ", "))
	}
	if text := a[eventTime]; text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || !carillon.Storable(at) {
			return nil, invalid(eventTime, "%.60q is no time such as 2030-01-31T12:00:00Z", text)
		}
		e.at = at
	}
	if text := a[ifGeneration]; text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return nil, invalid(ifGeneration, "%.30q is no number from 1 on", text)
		}
		e.ifGeneration = n
	}
	return e, nil
}
