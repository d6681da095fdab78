package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"

	"github.com/carillonhq/carillon/server/internal/manifest"
)

// outputFlag is the name of the flag that selects the format of results.
const outputFlag = "output"

// format is the value of the flag -o.
type format struct {
	words    []string // that the command has, jsonpath= aside
	word     string
	template string // of jsonpath
}

// The formats of commands: those of any, and those of lists.
var (
	formatWords = []string{"table", "json", "yaml"}
	listFormats = []string{"table", "wide", "json", "yaml", "name"}
	oneFormats  = []string{"table", "json", "yaml", "name"}
)

const jsonPath = "jsonpath"

// addOutput adds the flag -o to a command.
func addOutput(cmd *cobra.Command) { addFormats(cmd, formatWords) }

// addFormats adds the flag -o with the words of a command, or gives it others.
func addFormats(cmd *cobra.Command, words []string) {
	if f := cmd.Flags().Lookup(outputFlag); f != nil {
		f.Value.(*format).words = words
		return
	}
	f := &format{words: words, word: "table"}
	cmd.Flags().VarP(f, outputFlag, "o", "how to print the result; the template of jsonpath is kubectl's, such as {.jobs[*].name}")
	completeBy(cmd, outputFlag,
		func(*cobra.Command) []string { return append(slices.Clone(f.words), jsonPath+"=") })
}

func (f *format) String() string {
	if f.word == jsonPath {
		return jsonPath + "=" + f.template
	}
	return f.word
}

// Set implements pflag.Value.
func (f *format) Set(text string) error {
	if template, ok := strings.CutPrefix(text, jsonPath+"="); ok {
		if !strings.HasPrefix(template, "{") && strings.HasPrefix(template, ".") {
			template = "{" + template + "}"
		}
		if err := jsonpath.New("").Parse(template); err != nil {
			return usagef("%q is not a template of jsonpath: %s", clip(template, 60), err)
		}
		if !strings.Contains(template, "{") {
			return usagef("the template %q has no field in it; write for example jsonpath={.jobs[*].name}", clip(template, 60))
		}
		f.word, f.template = jsonPath, template
		return nil
	}
	if !slices.Contains(f.words, text) {
		return usagef("it is one of %s, %s=TEMPLATE", strings.Join(f.words, ", "), jsonPath)
	}
	f.word = text
	return nil
}

// Type returns what the help shows.
func (f *format) Type() string { return strings.Join(append(slices.Clone(f.words), jsonPath+"="), "|") }

// structured reports whether the result is for programs.
func (f *format) structured() bool { return f.word == "json" || f.word == "yaml" || f.word == jsonPath }

// formatOf returns the format that a command line asks for.
func formatOf(cmd *cobra.Command) *format {
	if flag := cmd.Flags().Lookup(outputFlag); flag != nil {
		if f, ok := flag.Value.(*format); ok {
			return f
		}
	}
	return &format{word: "table"}
}

// structured reports whether -o asks for a result for programs.
func structured(cmd *cobra.Command) bool { return formatOf(cmd).structured() }

// write writes a value of JSON in the format.
func (f *format) write(w io.Writer, raw []byte) error {
	var out bytes.Buffer
	switch f.word {
	case "yaml":
		text, err := manifest.YAML(raw)
		if err != nil {
			return err
		}
		out.Write(text)
	case jsonPath:
		if err := f.fill(&out, raw); err != nil {
			return err
		}
	default:
		if err := json.Indent(&out, raw, "", "  "); err != nil {
			return err
		}
		if !bytes.HasSuffix(raw, []byte("\n")) {
			out.WriteByte('\n')
		}
	}
	_, err := out.WriteTo(w)
	return err
}

// fill writes what the template selects, and the end of a line if it has none.
func (f *format) fill(out *bytes.Buffer, raw []byte) error {
	var v any
	if err := utiljson.Unmarshal(raw, &v); err != nil { // whole numbers stay whole
		return err
	}
	p := jsonpath.New("").AllowMissingKeys(true)
	if err := p.Parse(f.template); err != nil {
		return err
	}
	if err := p.Execute(out, v); err != nil {
		return fmt.Errorf("--output: the template does not fit the result: %w", err)
	}
	if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	return nil
}

// encode prints a value in the format that -o asks for.
func (a app) encode(cmd *cobra.Command, v any) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return formatOf(cmd).write(a.out, raw.Bytes())
}

// askedFormat returns the format of a command line that could not be parsed, as far as it says one.
func askedFormat(cmd *cobra.Command, args []string) *format {
	asked := &format{words: formatWords, word: formatOf(cmd).word}
	for i, arg := range args {
		if arg == "--" {
			break // the rest is for another command
		}
		text, ok := strings.CutPrefix(arg, "--"+outputFlag+"=")
		switch {
		case ok:
		case (arg == "-o" || arg == "--"+outputFlag) && i+1 < len(args):
			text = args[i+1]
		case strings.HasPrefix(arg, "-o") && len(arg) > 2:
			text = strings.TrimPrefix(arg[2:], "=")
		default:
			continue
		}
		if err := asked.Set(text); err != nil {
			return &format{word: "table"}
		}
	}
	return asked
}

// printJSON prints v indented.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
