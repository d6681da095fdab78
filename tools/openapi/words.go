package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// readWords reads what each value of an enum means: the comment above it.
func readWords(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "carillon", "v1", "*.proto"))
	if err != nil {
		return nil, err
	}
	for i, file := range files {
		if files[i], err = filepath.Rel(dir, file); err != nil {
			return nil, err
		}
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			ImportPaths: []string{dir, "third_party"},
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	words := map[string]string{}
	for _, file := range compiled {
		for i := range file.Enums().Len() {
			values := file.Enums().Get(i).Values()
			for j := range values.Len() {
				words[string(values.Get(j).Name())] = comment(file, values.Get(j))
			}
		}
	}
	return words, nil
}

func comment(file protoreflect.FileDescriptor, d protoreflect.Descriptor) string {
	lines := strings.Fields(file.SourceLocations().ByDescriptor(d).LeadingComments)
	return strings.Join(lines, " ")
}
