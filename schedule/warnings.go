package schedule

import (
	"fmt"
	"strings"
)

// Warnings says what the expression means that its author may not expect: a step that is longer than its
// field, and two restricted day fields of which either is enough. Each is a sentence without a full stop. The
// schedule is valid.
func (s *Schedule) Warnings() []string {
	if set, ok := s.rule.(setRule); ok {
		var out []string
		for _, m := range set {
			for _, w := range m.Warnings() {
				out = append(out, shorten(m.text)+": "+w)
			}
		}
		return out
	}
	rule, ok := s.rule.(*cronRule)
	if !ok {
		return nil
	}
	text := trim(span{s.text, 0})
	if _, rest, ok := cutZone(text); ok {
		text = trim(rest)
	}
	if text.text[0] == '@' {
		return nil
	}
	words := fields(text)
	all := []*field{&secondField, &minuteField, &hourField, &domField, &monthField, &dowField, &yearField}
	if len(words) == 5 {
		all = all[1:]
	}
	var out []string
	for i, word := range words {
		out = append(out, all[i].longSteps(word.text)...)
	}
	if d := &rule.days; !d.domAny && !d.dowAny && !d.bothRequired {
		dow := words[len(words)-1]
		if len(words) == 7 {
			dow = words[5]
		}
		out = append(out, fmt.Sprintf("day of month and day of week are both restricted, so either is enough; "+
			"write +%s to require both", shorten(dow.text)))
	}
	return out
}

// longSteps is a warning for each item of the list whose step leaves nothing but its first value.
func (f *field) longSteps(list string) []string {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		_, step, ok := strings.Cut(item, "/")
		if n, isNumber := number(step); ok && isNumber && n > int64(f.size) {
			out = append(out, fmt.Sprintf("%s: the step of %s is longer than the field, which has %d values, "+
				"so only the first one counts", f.name, shorten(item), f.size))
		}
	}
	return out
}
