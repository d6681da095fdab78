package house

import (
	"bytes"
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	lineColumns = 110 // a tab is one
	longText    = 30  // a literal of so many columns is left whole
)

func TestLinesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || ast.IsGenerated(s.file) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, s.path))
		if err != nil {
			t.Fatal(err)
		}
		wide := wideLines(text)
		for _, n := range linesOfTexts(text) {
			delete(wide, n)
		}
		for n, columns := range wide {
			t.Errorf("%s:%d: %d columns, more than %d, and no long text in it", s.path, n, columns, lineColumns)
		}
	}
}

// wideLines maps the numbers of the lines over the budget to their columns.
func wideLines(text []byte) map[int]int {
	wide := make(map[int]int)
	for i, line := range bytes.Split(text, []byte("\n")) {
		if n := utf8.RuneCount(line); n > lineColumns {
			wide[i+1] = n
		}
	}
	return wide
}

// linesOfTexts are the numbers of the lines with a long literal, which reads better whole, or with a comment
// for a tool, which must be on one line.
func linesOfTexts(text []byte) (lines []int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		at, kind, literal := s.Scan()
		first := file.Line(at)
		switch {
		case kind == token.EOF:
			return lines
		case kind == token.STRING && utf8.RuneCountInString(literal) > longText,
			kind == token.COMMENT && (len(literal) > 2 && literal[2] != ' '):
			for n := range 1 + strings.Count(literal, "\n") {
				lines = append(lines, first+n)
			}
		}
	}
}
