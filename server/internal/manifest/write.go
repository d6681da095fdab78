package manifest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// Job returns a job as a document of YAML, in the form that [Read] takes: what was set, without its status
// and without words that are the defaults. A payload of JSON is written as YAML, or in base64 if it would
// come back as another value.
func Job(j *carillon.Job) ([]byte, error) {
	m := Spec(j)
	n, err := FromJSON(httpapi.Marshal(m))
	if err != nil {
		return nil, err
	}
	if payload := value(n, "data"); payload != nil && !SameJSON(asJSON(payload), m.GetData()) {
		replace(n, "data", "data_base64", base64.StdEncoding.EncodeToString(m.GetData()))
	}
	return encode(n)
}

// Spec returns what the author of a job set, in the form of the API.
func Spec(j *carillon.Job) *pb.Job {
	m := wire.JobToProto(j)
	m.Status = nil
	if m.GetDst() == pb.DaylightSaving_DAYLIGHT_SAVING_SAFE {
		m.Dst = 0
	}
	if m.GetOverlap() == pb.Overlap_OVERLAP_SERIAL {
		m.Overlap = 0
	}
	if m.GetMisfire() == pb.Misfire_MISFIRE_LATEST {
		m.Misfire = 0
	}
	if m.GetPriority() == pb.Priority_PRIORITY_NORMAL {
		m.Priority = 0
	}
	return m
}

// SameJSON reports whether two values of JSON differ at most in white space.
func SameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

func asJSON(n *yaml.Node) []byte {
	text, err := encode(n)
	if err != nil {
		return nil
	}
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	c := converter{budget: MaxBytes}
	raw, err := c.convert(doc.Content[0])
	if err != nil {
		return nil
	}
	return raw
}

func replace(n *yaml.Node, key, by, text string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i], n.Content[i+1] = scalar("!!str", by), scalar("!!str", text)
		}
	}
}

// YAML returns a value of JSON as YAML, its fields in their order.
func YAML(raw []byte) ([]byte, error) {
	n, err := FromJSON(raw)
	if err != nil {
		return nil, err
	}
	return encode(n)
}

func encode(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// FromJSON returns a value of JSON as a node of YAML.
func FromJSON(raw []byte) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return node(d)
}

func node(d *json.Decoder) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		return collection(d, t)
	case string:
		n := scalar("!!str", t)
		if strings.ContainsFunc(t, unshown) {
			n.Style = yaml.DoubleQuotedStyle // in which \u202e is the character
		}
		return n, nil
	case json.Number:
		if strings.ContainsAny(string(t), ".eE") {
			return scalar("!!float", string(t)), nil
		}
		return scalar("!!int", string(t)), nil
	case bool:
		if t {
			return scalar("!!bool", "true"), nil
		}
		return scalar("!!bool", "false"), nil
	}
	return scalar("!!null", "null"), nil
}

// unshown reports whether a character is shown by its number: a plain text cannot have that.
func unshown(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

func collection(d *json.Decoder, open json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if open == '{' {
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	for d.More() {
		e, err := node(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, e)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err := d.Token() // the end
	return n, err
}

func scalar(tag, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

// Join joins documents into one file.
func Join(documents ...[]byte) []byte {
	return bytes.Join(slices.DeleteFunc(documents, func(d []byte) bool { return len(d) == 0 }), []byte("---\n"))
}
