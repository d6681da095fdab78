package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Describe says in English when a schedule fires, such as "at 02:00, Monday to Friday". Times are in the
// zone of the schedule, which the text names only if the expression does.
func (s *Schedule) Describe() string {
	switch r := s.rule.(type) {
	case setRule:
		parts := make([]string, len(r))
		for i, m := range r {
			parts[i] = m.Describe()
		}
		return strings.Join(parts, "; and ")
	case *cronRule:
		text := join(" ", r.timeWords(), r.dayWords(), r.monthWords(), r.yearWords())
		if _, _, ok := cutZone(trim(span{s.text, 0})); ok {
			text += ", in " + r.loc.String()
		}
		return text
	case *intervalRule:
		text := s.seriesWords(&r.series, Brief(r.period))
		if s.every && !r.anchored {
			text += ", counted from " + r.phaseWords()
		}
		return text
	case *calendarRule:
		_, period, _ := strings.Cut(s.text, "P")
		return s.seriesWords(&r.series, "P"+period)
	}
	return s.text
}

// seriesWords says how often something runs, and where it begins and ends.
func (s *Schedule) seriesWords(r *series, period string) string {
	text := "every " + period
	if s.runs > 0 {
		text += fmt.Sprintf(", %d times", s.runs)
	}
	switch {
	case r.anchored:
		return text + ", from its first run on"
	case r.start.Year() > 1:
		return text + ", from " + r.start.Format(time.RFC3339) + " on"
	}
	return text
}

// phaseWords says from when an interval with a phase is counted: a time of each day if there is one.
func (r *intervalRule) phaseWords() string {
	const day = 24 * time.Hour
	first, _ := r.next(time.Unix(0, -1), time.Time{})
	text := first.Format(time.RFC3339Nano)
	if day%r.period != 0 {
		return text
	}
	return strings.TrimSuffix(strings.TrimSuffix(text[len("1970-01-01T"):], "Z"), ":00") + " UTC"
}

// Brief returns a length of time as [time.Duration.String] does, but without zeros at its end: "1h", not
// "1h0m0s".
func Brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// join joins what is not empty.
func join(by string, parts ...string) string {
	var all []string
	for _, p := range parts {
		if p != "" {
			all = append(all, p)
		}
	}
	return strings.Join(all, by)
}

// list joins words as a sentence does.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// mostTimes is how many times of a day are listed one by one.
const mostTimes = 6

func (c *cronRule) timeWords() string {
	n := bits.OnesCount64(c.second) * bits.OnesCount64(c.minute) * bits.OnesCount32(c.hour)
	if n <= mostTimes {
		return "at " + list(c.times(), "and")
	}
	return join(" ", c.withinHour(), c.hourWords())
}

// times lists the times of a day.
func (c *cronRule) times() (times []string) {
	for _, h := range members(uint64(c.hour)) {
		for _, m := range members(c.minute) {
			for _, s := range members(c.second) {
				text := fmt.Sprintf("%02d:%02d", h, m)
				if c.second != 1 {
					text += fmt.Sprintf(":%02d", s)
				}
				times = append(times, text)
			}
		}
	}
	return times
}

// withinHour says at which minutes and seconds.
func (c *cronRule) withinHour() string {
	minute := cycleWords(c.minute, 60, "minute")
	switch {
	case c.second == 1:
		return minute
	case c.minute == 1<<60-1:
		return cycleWords(c.second, 60, "second")
	}
	return cycleWords(c.second, 60, "second") + " of " + strings.TrimPrefix(minute, "at ")
}

func (c *cronRule) hourWords() string {
	hours := members(uint64(c.hour))
	switch first, last := hours[0], hours[len(hours)-1]; {
	case len(hours) == 24:
		if bits.OnesCount64(c.minute) == 1 {
			return "of every hour"
		}
		return ""
	case len(hours) == 1:
		return fmt.Sprintf("from %02d:00 to %02d:59", first, first)
	case last-first == len(hours)-1:
		return fmt.Sprintf("from %02d:00 to %02d:59", first, last)
	}
	words := cycleWords(uint64(c.hour), 24, "hour")
	return "of " + strings.TrimPrefix(words, "at ")
}

// members lists the bits of a set.
func members(set uint64) (all []int) {
	for ; set != 0; set &= set - 1 {
		all = append(all, bits.TrailingZeros64(set))
	}
	return all
}

// cycleWords describes values of a cycle: all, each n-th, a range, or single ones.
func cycleWords(set uint64, size int, unit string) string {
	all := members(set)
	step := 1
	if len(all) > 1 {
		step = all[1] - all[0]
	}
	even := len(all) > 1 && all[0] < step && all[0]+step*len(all)-size == all[0]
	for i := range all {
		even = even && all[i] == all[0]+i*step
	}
	switch {
	case len(all) == size:
		return "every " + unit
	case even && all[0] == 0:
		return fmt.Sprintf("every %d %ss", step, unit)
	case even:
		return fmt.Sprintf("every %d %ss from %s %d on", step, unit, unit, all[0])
	case len(all) > 2 && all[len(all)-1]-all[0] == len(all)-1:
		return fmt.Sprintf("every %s from %d to %d", unit, all[0], all[len(all)-1])
	}
	return "at " + plural(unit, len(all)) + " " + list(numbers(all), "and")
}

func numbers(all []int) (words []string) {
	for _, n := range all {
		words = append(words, strconv.Itoa(n))
	}
	return words
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func (c *cronRule) dayWords() string {
	d := &c.days
	switch {
	case d.domAny && d.dowAny:
		return ""
	case d.domAny:
		return "on " + d.weekWords("and")
	case d.dowAny:
		return "on " + d.monthDayWords("and")
	case d.bothRequired:
		return "on " + d.monthDayWords("and") + ", if it is " + d.weekWords("or")
	}
	return "on " + d.monthDayWords("and") + " and also on " + d.weekWords("and")
}

var weekdays = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}

func (f *days) weekWords(last string) string {
	var words []string
	if days := members(uint64(f.dow)); len(days) > 2 && days[len(days)-1]-days[0] == len(days)-1 {
		words = append(words, weekdays[days[0]]+" to "+weekdays[days[len(days)-1]])
	} else {
		for _, d := range days {
			words = append(words, weekdays[d])
		}
	}
	for i, set := range f.nthDow {
		for _, d := range members(uint64(set)) {
			words = append(words, "the "+ordinal(i+1)+" "+weekdays[d]+" of the month")
		}
	}
	for _, d := range members(uint64(f.lastDow)) {
		words = append(words, "the last "+weekdays[d]+" of the month")
	}
	return list(words, last)
}

func (f *days) monthDayWords(last string) string {
	var words []string
	if days := members(uint64(f.dom)); len(days) > 2 && days[len(days)-1]-days[0] == len(days)-1 {
		words = append(words, fmt.Sprintf("days %d to %d of the month", days[0], days[len(days)-1]))
	} else if len(days) > 0 {
		words = append(words, plural("day", len(days))+" "+list(numbers(days), last)+" of the month")
	}
	for _, n := range members(uint64(f.fromEnd)) {
		if n == 0 {
			words = append(words, "the last day of the month")
		} else {
			words = append(words, fmt.Sprintf("the day %d before the last of the month", n))
		}
	}
	for _, n := range members(uint64(f.nearest)) {
		words = append(words, fmt.Sprintf("the weekday nearest to day %d of the month", n))
	}
	if f.lastWorkday {
		words = append(words, "the last weekday of the month")
	}
	return list(words, last)
}

func ordinal(n int) string { return []string{"1st", "2nd", "3rd", "4th", "5th"}[n-1] }

func (c *cronRule) monthWords() string {
	months := members(uint64(c.month))
	if len(months) == 12 {
		return ""
	}
	var words []string
	for _, m := range months {
		words = append(words, time.Month(m).String())
	}
	if len(months) > 2 && months[len(months)-1]-months[0] == len(months)-1 {
		return "in " + words[0] + " to " + words[len(words)-1]
	}
	return "in " + list(words, "and")
}

func (c *cronRule) yearWords() string {
	if c.anyYear {
		return ""
	}
	var years []int
	for y := firstListedYear; y <= lastListedYear; y++ {
		if c.year.has(y - firstListedYear) {
			years = append(years, y)
		}
	}
	if n := len(years); n > 2 && years[n-1]-years[0] == n-1 {
		return fmt.Sprintf("from %d to %d", years[0], years[n-1])
	}
	return "in " + list(numbers(years), "and")
}

// Hints are the warnings, and what is often overlooked and mostly meant: steps that do not divide their
// field, which begin again with each round of it.
func (s *Schedule) Hints() []string {
	out := s.Warnings()
	for _, m := range s.Members() {
		if _, ok := m.rule.(*cronRule); ok {
			out = append(out, m.unevenSteps()...)
		}
	}
	return out
}

func (s *Schedule) unevenSteps() (out []string) {
	text := trim(span{s.text, 0})
	if _, rest, ok := cutZone(text); ok {
		text = trim(rest)
	}
	words := fields(text)
	all := []*field{&secondField, &minuteField, &hourField, &domField, &monthField, &dowField}
	if len(words) == 5 {
		all = all[1:]
	}
	for i, f := range all[:min(len(all), len(words))] {
		for item := range strings.SplitSeq(words[i].text, ",") {
			head, step, ok := strings.Cut(item, "/")
			n, isNumber := number(step)
			if !ok || !isNumber || n < 2 || n > int64(f.size) || strings.Contains(head, "-") {
				continue
			}
			if int64(f.size)%n != 0 {
				out = append(out, fmt.Sprintf("%s: %s begins again with each round, since %d does not divide %d; "+
					"for equal distances write @every", f.name, shorten(item), n, f.size))
			}
		}
	}
	return out
}
