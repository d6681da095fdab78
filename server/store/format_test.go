package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fieldsOf is what there is in records, by format.
var fieldsOf = map[int]string{
	2: "196 fields, 894b74398c7ed464",
	3: "234 fields, e4e7d92adf6fa5c4",
	4: "251 fields, 08bfa8f83e85a035",
	5: "274 fields, ef4550a5fc704906",
	6: "317 fields, 505f5cdd2806d47b",
}

// TestFieldsAreOfTheFormat: a program drops what it does not know of a record that it writes again. So
// another field is another format: raise it in format.go, write down what it adds, and its fields here. Nodes
// of the format before are then refused.
func TestFieldsAreOfTheFormat(t *testing.T) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := compiler.Compile(t.Context(), "codec/record.proto")
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for m := range messages(files[0].Messages()) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			fields = append(fields, fmt.Sprint(m.FullName(), f.Number(), f.Kind(), f.Cardinality()))
		}
	}
	slices.Sort(fields)
	got := fmt.Sprintf("%d fields, %.8x", len(fields), sha256.Sum256([]byte(strings.Join(fields, "\n"))))
	if got != fieldsOf[Format()] {
		t.Errorf("format %d has %s, want %s", Format(), got, fieldsOf[Format()])
	}
}

// messages are the messages of a file, with those inside others.
func messages(list protoreflect.MessageDescriptors) func(yield func(protoreflect.MessageDescriptor) bool) {
	return func(yield func(protoreflect.MessageDescriptor) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
			for m := range messages(list.Get(i).Messages()) {
				if !yield(m) {
					return
				}
			}
		}
	}
}

func TestExtends(t *testing.T) {
	for has, want := range map[int]bool{-1: false, 0: false, 1: true, 2: true, 3: true, Format(): false, Format() + 1: false} {
		if Extends(has) != want {
			t.Errorf("a store of format %d: %v", has, !want)
		}
	}
}

// TestCheckUnused: nodes that live are named, in order.
func TestCheckUnused(t *testing.T) {
	if err := CheckUnused(1, nil); err != nil {
		t.Error(err)
	}
	if err := CheckUnused(1, []string{"b", "a"}); !errors.Is(err, ErrInUse) || !strings.HasSuffix(err.Error(), "there live a, b") {
		t.Error(err)
	}
}
