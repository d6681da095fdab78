package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// A node's setting is a flag. It may come from the command line, from the environment as CARILLON_ and the
// flag's name, or from a YAML file under the flag's name with underscores; the first of these that has it
// wins. So a setting's name, type, default and meaning are defined only by its flag.

// defaultConfigFile is read by `carillon serve` if it exists.
const defaultConfigFile = "carillon.yaml"

// fileName returns the key of a flag in the file.
func fileName(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// settings sets flags from the environment and the file; usual, if not empty, is the file that is read if
// there is one. extra holds keys of the file that are no flags.
func settings(flags *pflag.FlagSet, file, usual string, extra map[string]any) error {
	given := make(map[string]bool)
	flags.VisitAll(func(f *pflag.Flag) { given[f.Name] = f.Changed })
	if err := fromEnvironment(flags, given); err != nil {
		return err
	}
	file = cmp.Or(file, os.Getenv(envName("config")))
	explicit := file != ""
	if file = cmp.Or(file, usual); file == "" {
		return nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // whoever starts the node says which file
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return nil
	}
	if err != nil {
		return fileError("config", file, err)
	}
	return fromFile(flags, given, file, text, extra)
}

// fromEnvironment sets the flags that are not given yet and have a variable.
func fromEnvironment(flags *pflag.FlagSet, given map[string]bool) error {
	var faults []string
	flags.VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(envName(f.Name))
		if !ok || value == "" || given[f.Name] || notASetting(f) {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			faults = append(faults, fmt.Sprintf("environment %s: %s", envName(f.Name), settingError(err)))
		}
		given[f.Name] = true
	})
	return joinFaults(faults)
}

// notASetting reports whether a flag is only for the command line.
func notASetting(f *pflag.Flag) bool { return f.Name == "help" || f.Name == "config" }

// fromFile sets the flags that are not given yet and are in the file. It reports all faults of the file at
// once.
func fromFile(flags *pflag.FlagSet, given map[string]bool, file string, text []byte,
	extra map[string]any) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return usagef("%s", yamlError(file, text, err))
	}
	if len(doc.Content) == 0 {
		return nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return usagef("%s:%d: want settings as key: value", file, top.Line)
	}
	var faults []string
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		err := fromKey(flags, given, key, value, extra)
		if seen[key.Value] {
			err = fmt.Errorf("%s: it is there twice", key.Value)
		}
		seen[key.Value] = true
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s:%d: %s", file, key.Line, err))
		}
	}
	return joinFaults(faults)
}

// fromKey sets the flag of one key of the file.
func fromKey(flags *pflag.FlagSet, given map[string]bool, key, value *yaml.Node, extra map[string]any) error {
	if into, ok := extra[key.Value]; ok {
		return value.Decode(into)
	}
	f := flagOfKey(flags, key.Value)
	if f == nil {
		return fmt.Errorf("unknown key %q%s", key.Value, hintKey(flags, key.Value, extra))
	}
	if given[f.Name] {
		return nil
	}
	texts, err := scalars(value)
	if err != nil {
		return fmt.Errorf("%s: %w", key.Value, err)
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		err = list.Replace(texts)
	} else if len(texts) != 1 {
		err = errors.New("want one value, not a list")
	} else {
		err = settingError(flags.Set(f.Name, texts[0]))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key.Value, err)
	}
	return nil
}

// flagOfKey returns the flag for a key of the file, or nil.
func flagOfKey(flags *pflag.FlagSet, key string) *pflag.Flag {
	f := flags.Lookup(strings.ReplaceAll(key, "_", "-"))
	if f == nil || fileName(f.Name) != key || notASetting(f) {
		return nil
	}
	return f
}

// hintKey suggests the known key that is most like an unknown one.
func hintKey(flags *pflag.FlagSet, key string, extra map[string]any) string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !notASetting(f) {
			names = append(names, fileName(f.Name))
		}
	})
	names = slices.AppendSeq(names, maps.Keys(extra))
	return hint("; did you mean %q?", key, names)
}

// scalars returns a single value, or the values of a list, as text.
func scalars(n *yaml.Node) ([]string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}, nil
	case yaml.SequenceNode:
		var texts []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("want a list of plain values")
			}
			texts = append(texts, item.Value)
		}
		return texts, nil
	default:
		return nil, errors.New("want a plain value or a list")
	}
}

// joinFaults returns a usage error with all faults, or nil.
func joinFaults(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return usagef("%s", strings.Join(faults, "\n"))
}
