// Package yamlfile reads small files of settings in YAML, and the files that they name.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the most bytes of a file.
const MaxBytes = 1 << 20

// Read decodes the file's one document into a value; a field that the value does not have is an error.
func Read(path string, into any) error {
	text, err := Bytes(path)
	if err != nil {
		return err
	}
	return Decode(path, text, into)
}

// Decode is Read for what is in a file.
func Decode(path string, text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %s", path, Plain(err))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: it must be one document of YAML", path)
	}
	return nil
}

// goType is how errors of package yaml name a type of Go.
var goType = regexp.MustCompile(` in type \w+\.\w+`)

// Values that errors of package yaml show, as they are: they may be passwords in the wrong place, which may
// have quotes and line breaks of their own, or begin like tags and anchors.
var (
	quoted = regexp.MustCompile(
		"(?s)(cannot \\w+)( !!(?:str|int|float|bool|null|seq|map|timestamp|binary|merge)\\b)?( .*)?`")
	anchor = regexp.MustCompile("(?s)(anchor) '.*'")
)

// Plain is the text of an error of package yaml, without values.
func Plain(err error) string {
	texts := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	head := ""
	if several, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts, head = several.Errors, "unmarshal errors:\n  "
	}
	plain := make([]string, len(texts))
	for i, text := range texts {
		text = quoted.ReplaceAllString(text, "$1$2")
		plain[i] = goType.ReplaceAllString(anchor.ReplaceAllString(text, "$1"), "")
	}
	return head + strings.Join(plain, "\n  ")
}

// Bytes reads a whole file, which must be a regular one: a named pipe would keep the caller waiting.
func Bytes(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: it is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("%s: it is larger than %d bytes", path, MaxBytes)
	}
	return b, nil
}
