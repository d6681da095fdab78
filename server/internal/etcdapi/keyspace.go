package etcdapi

import (
	"strings"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
)

// span is a range of keys: from the first to before the end. An empty end means that it is open.
type span struct{ from, end string }

// toTheEnd is the end, in a request, of a range that is open.
const toTheEnd = "\x00"

// spanOf returns the keys that a request names: one, or a range.
func spanOf(key, end []byte) span {
	switch {
	case len(end) == 0:
		return span{string(key), string(key) + "\x00"}
	case string(end) == toTheEnd:
		return span{string(key), ""}
	}
	return span{string(key), string(end)}
}

// single reports whether the span is one key.
func (s span) single() bool { return s.end == s.from+"\x00" }

func (s span) contains(key string) bool { return key >= s.from && (s.end == "" || key < s.end) }

// prefix returns what all keys of the span begin with.
func (s span) prefix() string {
	switch {
	case s.end == "":
		return ""
	case s.single() || s.end == after(s.from):
		return s.from
	}
	n := 0
	for n < len(s.from) && n < len(s.end) && s.from[n] == s.end[n] {
		n++
	}
	return s.from[:n]
}

// after returns the first text after all that begin with the prefix; empty: there is none.
func after(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// meet reports whether a text may begin with both.
func meet(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// between stands between the levels of a job's name in Dapr's keys: KIND||NAMESPACE||APP||NAME, or with an
// actor's type and id in place of APP. It may also be within an app's, a type's or an id.
const between = "||"

// kinds are the first levels, with what the names of such jobs begin with in Carillon, and how many levels
// come between namespace and name.
var kinds = [...]struct {
	level, prefix string
	levels        int
}{{"app", carillon.DaprPrefix + "app/", 1}, {"actorreminder", carillon.DaprPrefix + "actor/", 2}}

// scan names jobs: those of a namespace, or of all, whose names begin with the prefix.
type scan struct{ namespace, prefix string }

// scansOf returns scans that find, each once, all jobs whose names in Dapr's keys begin with p, and hardly
// any others.
func scansOf(p string) (all []scan) {
	for _, kind := range kinds {
		head := kind.level + between
		if !meet(p, head) {
			continue
		}
		namespace, rest, found := strings.Cut(strings.TrimPrefix(p, head), between)
		if !found || len(p) < len(head) {
			all = append(all, scan{"", kind.prefix})
			continue
		}
		for _, prefix := range prefixesOf(kind.prefix, rest, kind.levels) {
			all = append(all, scan{namespace, prefix})
		}
	}
	return all
}

// prefixesOf returns what the names begin with in Carillon of the jobs that p is the beginning of, if so many
// levels come before the name. A level ends at the first separator, or that is within it.
func prefixesOf(prefix, p string, levels int) []string {
	if levels == 0 {
		return []string{prefix + carillon.EscapeLevel(whole(p))}
	}
	level, rest, found := strings.Cut(p, between)
	if !found {
		return []string{prefix + carillon.EscapeLevel(whole(strings.TrimRight(p, "|")))}
	}
	ends := prefixesOf(prefix+carillon.EscapeLevel(level)+"/", rest, levels-1)
	return append(ends, prefix+carillon.EscapeLevel(level+"|"))
}

// whole cuts off what is not a whole character: it would be escaped otherwise than the character.
func whole(text string) string {
	for text != "" {
		if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size > 1 {
			return text
		}
		text = text[:len(text)-1]
	}
	return ""
}
