package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// Bounds on what is read at once.
const (
	MaxBytes    = 64 << 20 // of one file
	MaxExpanded = 4 << 20  // beyond the size of the file, by aliases
	MaxJobs     = 10_000   // of one file
)

// Item is a job as a file gives it.
type Item struct {
	Job  carillon.Job
	File string
	Line int // from 1

	fields []string
	node   *yaml.Node
	above  int
}

// Gives reports whether the file names a field of the job, such as "paused".
func (i *Item) Gives(field string) bool { return slices.Contains(i.fields, field) }

// Fault returns an error about the job with the position of its field in the file.
func (i *Item) Fault(err error) error {
	r := reader{file: i.File}
	if i.node == nil {
		return r.fault(nil, err, i.Line-1)
	}
	return r.fault(i.node, err, i.above)
}

// Where returns the position of the job, as file:line.
func (i *Item) Where() string { return fmt.Sprintf("%s:%d", i.File, i.Line) }

// Error is a fault of a file.
type Error struct {
	File         string
	Line, Column int // from 1; 0: not known
	Message      string
}

// Error returns the position and the message.
func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return e.File + ": " + e.Message
	case e.Column == 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Read returns the jobs of a file, in its order. A document is a job in the form of the REST API, or an
// object with the field jobs, a list of them, as `carillon job list -o json` prints it. Documents of JSON
// follow one another; those of YAML have lines of --- between them. Every fault is an *Error.
func Read(file string, text []byte) ([]Item, error) {
	if len(text) > MaxBytes {
		return nil, &Error{File: file, Message: fmt.Sprintf("it is larger than %d MiB", MaxBytes>>20)}
	}
	r := &reader{file: file}
	var err error
	if isJSON(text) {
		err = r.json(text)
	} else {
		err = r.yaml(text)
	}
	if err == nil && len(r.items) > MaxJobs {
		err = &Error{File: file, Message: fmt.Sprintf("it has more than %d jobs", MaxJobs)}
	}
	return r.items, err
}

// isJSON reports whether a text is one or more objects of JSON. Those are read as JSON, so that payloads keep
// each byte.
func isJSON(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	n := 0
	for ; ; n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return n > 0 && errors.Is(err, io.EOF)
		}
	}
}

type reader struct {
	file  string
	items []Item
}

func (r *reader) json(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &Error{File: r.file, Message: err.Error()}
		}
		end := int(d.InputOffset())
		line := 1 + bytes.Count(text[:end-len(raw)], []byte("\n"))
		if err := r.document(raw, tree(raw), line-1); err != nil {
			return err
		}
	}
}

// tree returns the positions in a value of JSON; nil if the library cannot read it.
func tree(raw []byte) *yaml.Node {
	var doc yaml.Node
	if yaml.Unmarshal(raw, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

func (r *reader) yaml(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.syntax(err)
		}
		if len(doc.Content) == 0 || isEmpty(doc.Content[0]) {
			continue
		}
		c := converter{budget: 2*len(text) + MaxExpanded}
		raw, err := c.convert(doc.Content[0])
		if err != nil {
			return r.at(c.node, err.Error(), 0)
		}
		if err := r.document(raw, doc.Content[0], 0); err != nil {
			return err
		}
	}
}

func isEmpty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// syntax is the error of a text that is no YAML; the library's text begins with the line.
func (r *reader) syntax(err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{File: r.file, Line: 1, Message: message} // the library gives no line for the first one
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if _, err := fmt.Sscanf(rest, "%d:", &e.Line); err == nil {
			_, e.Message, _ = strings.Cut(rest, ": ")
		}
	}
	return e
}

func (r *reader) at(n *yaml.Node, message string, above int) error {
	e := &Error{File: r.file, Message: message}
	if n != nil {
		e.Line, e.Column = above+n.Line, n.Column
	}
	return e
}

// document takes a document; above is how many lines stand before those that n counts.
func (r *reader) document(raw []byte, n *yaml.Node, above int) error {
	var list struct{ Jobs []json.RawMessage }
	if !isList(raw) {
		return r.item(raw, n, above)
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return r.at(value(n, "jobs"), "jobs: must be a list", above)
	}
	for i, job := range list.Jobs {
		if err := r.item(job, element(value(n, "jobs"), i), above); err != nil {
			return err
		}
	}
	return nil
}

// isList reports whether a document is an object with the field jobs, and at most next_page_token.
func isList(raw []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	delete(fields, "next_page_token")
	_, ok := fields["jobs"]
	return ok && len(fields) == 1
}

func (r *reader) item(raw []byte, n *yaml.Node, above int) error {
	var m pb.Job
	fields, err := httpapi.UnmarshalPatch(raw, &m)
	if err != nil {
		return r.fault(n, err, above)
	}
	m.Status = nil
	job, err := wire.JobFromProto(&m)
	if err == nil {
		job.Status = nil
		err = job.CheckForm()
	}
	if err == nil && job.Name == "" {
		err = carillon.Errorf(carillon.InvalidArgument, "name", "it is missing: a job of a file needs one")
	}
	if err != nil {
		return r.fault(n, err, above)
	}
	i := Item{Job: job, File: r.file, fields: fields, node: n, above: above}
	if n != nil {
		i.Line = above + n.Line
	} else {
		i.Line = above + 1
	}
	r.items = append(r.items, i)
	return nil
}

// fault adds the position of the field to an error.
func (r *reader) fault(n *yaml.Node, err error, above int) error {
	message, field := err.Error(), ""
	if known, ok := errors.AsType[*carillon.Error](err); ok {
		message, field = known.Message, known.Field
		if field != "" {
			message = field + ": " + message
		}
	}
	if n == nil {
		return &Error{File: r.file, Line: above + 1, Message: message}
	}
	return r.at(locate(n, field), message, above)
}
