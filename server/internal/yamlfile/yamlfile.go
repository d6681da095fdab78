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

// quoted is a value that an error of package yaml shows; it may be a password in the wrong place.
var quoted = regexp.MustCompile("(!!\\w+) `[^`]*`")

// Plain is the text of an error of package yaml, without values.
func Plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	return goType.ReplaceAllString(quoted.ReplaceAllString(text, "$1"), "")
}

// Bytes reads a whole file.
func Bytes(path string) ([]byte, error) {
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
