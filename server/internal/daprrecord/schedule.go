package daprrecord

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ScheduleText is a schedule that Dapr's scheduler would take, in words that mean the same to Carillon. Most
// mean the same as they stand. Dapr's grammar is that of robfig/cron: exactly six fields, seconds first, no
// L, W or #, no range that wraps around, and it takes forms that Carillon refuses or reads otherwise; a field
// with one is written again, as a list.
func ScheduleText(text string) (string, error) {
	if text == "" {
		return "", errors.New("it is empty")
	}
	zone, rest, err := cutZone(text)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(rest, "@") {
		word, err := sameWord(rest)
		return zone + word, err
	}
	fields := strings.Fields(rest)
	if len(fields) != len(cronFields) {
		return "", fmt.Errorf("%q has %d fields; a cron has exactly %d: second, minute, hour, day of month, month and day of week",
			clip(rest), len(fields), len(cronFields))
	}
	changed := false
	for i, f := range cronFields {
		set, err := f.parse(fields[i])
		if err != nil {
			return "", fmt.Errorf("%s %q: %w", f.name, clip(fields[i]), err)
		}
		if !set.plain {
			fields[i], changed = set.text(), true
		}
	}
	if !changed && strings.Trim(rest, asciiCron) == "" {
		return zone + rest, nil
	}
	return zone + strings.Join(fields, " "), nil
}

// asciiCron are the characters of a cron that Carillon splits as Dapr does.
const asciiCron = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ*?,-/ \t"

// cutZone cuts TZ=ZONE or CRON_TZ=ZONE, with the space after it, off a schedule.
func cutZone(text string) (zone, rest string, err error) {
	if !strings.HasPrefix(text, "TZ=") && !strings.HasPrefix(text, "CRON_TZ=") {
		return "", text, nil
	}
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		return "", "", fmt.Errorf("%q is a time zone without a schedule after it", clip(text))
	}
	zone, rest = text[:end], strings.TrimSpace(text[end:])
	_, name, _ := strings.Cut(zone, "=")
	if name == "" {
		zone = "TZ=UTC"
	}
	if _, err := time.LoadLocation(name); err != nil {
		return "", "", fmt.Errorf("the time zone %q is unknown", clip(name))
	}
	if strings.HasPrefix(rest, every) {
		return "", "", errors.New("@every has no time zone; leave it out")
	}
	return zone + " ", rest, nil
}

const every = "@every "

// shortest is the shortest interval that Carillon takes. Dapr takes any, also none and negative ones: the job
// is always due.
const shortest = time.Millisecond

// sameWord is what begins with "@" in words that mean the same to Carillon.
func sameWord(word string) (string, error) {
	switch word {
	case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
		return word, nil
	}
	text, found := strings.CutPrefix(word, every)
	if !found {
		return "", fmt.Errorf("%q is unknown; there are @every, @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly",
			clip(word))
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return "", fmt.Errorf("%q is not a duration such as 90s or 1h30m", clip(text))
	}
	if d < shortest {
		return every + shortest.String(), nil
	}
	return word, nil
}

// cronField is one of the six.
type cronField struct {
	name     string
	min, max uint
	names    []string // of the values from min on
	day      bool     // "?" is taken by Carillon
}

var cronFields = [...]cronField{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31, day: true},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug",
		"sep", "oct", "nov", "dec"}},
	{name: "day of week", max: 6, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, day: true},
}

// valueSet is what a field allows.
type valueSet struct {
	bits  uint64
	star  bool // a day field that does not restrict
	plain bool // Carillon reads the text alike
}

// parse reads a field: a list.
func (f *cronField) parse(text string) (valueSet, error) {
	all := valueSet{plain: true}
	items := strings.Split(text, ",")
	for _, item := range items {
		if item == "" { // passed over
			all.plain = false
			continue
		}
		one, err := f.parseItem(item)
		if err != nil {
			return all, err
		}
		all.bits |= one.bits
		all.star = all.star || one.star
		all.plain = all.plain && one.plain && (len(items) == 1 || !one.star)
	}
	if all.bits == 0 {
		return all, errors.New("it has no value")
	}
	return all, nil
}

// parseItem reads one item: a value, a range or a star, with a step or without.
func (f *cronField) parseItem(item string) (valueSet, error) {
	span, stepText, stepped := strings.Cut(item, "/")
	from, to, star, plain, err := f.parseSpan(span)
	if err != nil {
		return valueSet{}, err
	}
	step := uint(1)
	if stepped {
		if step, err = number(stepText); err != nil {
			return valueSet{}, err
		}
		if !strings.Contains(span, "-") {
			to = f.max
		}
		plain = plain && tidy(stepText) && step <= f.max-f.min+1 && !(star && step == 1 && f.day) && span != "?"
		star = star && step <= 1
	}
	switch {
	case from < f.min || to > f.max:
		return valueSet{}, fmt.Errorf("%q is not within %d-%d", clip(item), f.min, f.max)
	case from > to:
		return valueSet{}, fmt.Errorf("%q begins after its end", clip(item))
	case step == 0:
		return valueSet{}, errors.New("a step of 0 goes nowhere")
	}
	set := valueSet{star: star, plain: plain}
	for v := from; v <= to; v += min(step, f.max+1) {
		set.bits |= 1 << v
	}
	return set, nil
}

// parseSpan reads what is before a step.
func (f *cronField) parseSpan(span string) (from, to uint, star, plain bool, err error) {
	low, high, isRange := strings.Cut(span, "-")
	if low == "*" || low == "?" { // whatever follows a hyphen then
		return f.min, f.max, true, !isRange && (low == "*" || f.day), nil
	}
	if from, err = f.value(low); err != nil || !isRange {
		return from, from, false, f.tidy(low), err
	}
	to, err = f.value(high)
	return from, to, false, f.tidy(low) && f.tidy(high), err
}

// value reads a number or a name.
func (f *cronField) value(text string) (uint, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + uint(i), nil
		}
	}
	return number(text)
}

func number(text string) (uint, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number", clip(text))
	}
	return uint(n), nil
}

// tidy reports whether Carillon reads a value alike: not with a sign, nor with zeros in front.
func (f *cronField) tidy(text string) bool {
	return tidy(text) || len(f.names) > 0 && len(text) == len(f.names[0])
}

func tidy(text string) bool {
	return text != "" && len(text) <= 2 && strings.Trim(text, "0123456789") == ""
}

// text is the set as a list that Carillon reads alike.
func (s valueSet) text() string {
	if s.star {
		return "*"
	}
	var b strings.Builder
	for left := s.bits; left != 0; {
		from := bits.TrailingZeros64(left)
		length := bits.TrailingZeros64(^(left >> from))
		left &^= (1<<length - 1) << from
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(from))
		if length > 1 {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(from + length - 1))
		}
	}
	return b.String()
}
