package schedule

import (
	"strings"
	"time"
)

// Schedule is a parsed, immutable expression; it can be shared between jobs and goroutines.
type Schedule struct {
	text     string
	rule     rule
	runs     uint64    // n of Rn/…, 0 for no limit
	start    time.Time // of R…/start/…
	hasStart bool
	anchored bool
	every    bool // @every
	period   time.Duration
}

// rule is one of the ways to say when: *cronRule, *intervalRule, *calendarRule, or a setRule of several.
type rule interface {
	next(after, anchor time.Time) (time.Time, bool)
	last(until, anchor time.Time) (time.Time, bool)
	count(after, until, anchor time.Time, limit int) int
}

// Options are what the text itself does not say.
type Options struct {
	// Location is the time zone of cron expressions and of the calendar parts of ISO 8601 periods. nil is
	// UTC. A TZ= or CRON_TZ= prefix in the text wins.
	Location *time.Location
	// Literal takes cron's fixed times literally where the clocks change, as robfig/cron does: a time that is
	// skipped is not run, one that occurs twice runs twice.
	Literal bool
}

// Parse reads a cron expression (5, 6 or 7 fields), a macro such as @daily, "@every D", "@every D/PHASE", an
// ISO 8601 repeat such as "R4/PT3S", or several of these with semicolons between them. The package
// documentation has the grammar. An error is always an *Error.
func Parse(expr string, opt Options) (*Schedule, error) {
	s, err := parse(expr, opt)
	if err != nil {
		err.Expr = expr
		return nil, err
	}
	return s, nil
}

func parse(expr string, opt Options) (*Schedule, *Error) {
	text := trim(span{expr, 0})
	if strings.IndexByte(expr, ';') >= 0 {
		s := &Schedule{text: expr}
		err := s.parseSet(text, opt)
		return s, err
	}
	s, err := parseOne(text, opt)
	if err == nil {
		s.text = expr
	}
	return s, err
}

// parseOne reads a schedule that is no set.
func parseOne(text span, opt Options) (*Schedule, *Error) {
	loc, whole := opt.Location, text.text
	if loc == nil {
		loc = time.UTC
	}
	if zone, rest, ok := cutZone(text); ok {
		var err *Error
		if loc, err = loadZone(zone); err != nil {
			return nil, err
		}
		if text = trim(rest); text.text == "" {
			return nil, text.fail("schedule", "a time zone alone is no schedule; write one after it")
		}
	}
	s := &Schedule{text: whole}
	err := s.parse(text, loc, opt.Literal)
	return s, err
}

func (s *Schedule) parse(text span, loc *time.Location, literal bool) *Error {
	switch {
	case text.text == "":
		return text.fail("schedule", "empty; write a cron expression, @every, a macro such as @daily, or an ISO 8601 repeat")
	case text.text[0] == '@':
		return s.parseMacro(text, loc, literal)
	case isRepeat(text.text):
		return s.parseRepeat(text, loc)
	case strings.HasPrefix(text.text, "rate("):
		return text.fail("schedule", "rate(…) is EventBridge's way to write an interval; write for example @every 5m")
	case strings.HasPrefix(text.text, "cron("):
		return text.fail("schedule", "cron(…) is EventBridge's way to write a cron; write what is inside, with a 0 for the second before it")
	case text.text[0] == 'P':
		return text.fail("schedule", "a period alone is no schedule; put R/ before it to repeat it")
	}
	if word, _, _ := strings.Cut(text.text, " "); isWord(word) {
		return text.fail("schedule", "%s begins no schedule; write a cron such as 0 9 * * MON-FRI, or @every 10m, @daily or R4/PT15M",
			quote(word))
	}
	return s.parseCron(text, loc, literal)
}

// isWord reports whether a text is one of letters, as no schedule begins with.
func isWord(text string) bool {
	return len(text) > 1 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// macros are cron's own (crontab(5)).
var macros = map[string]string{
	"@yearly":   "0 0 0 1 1 *",
	"@annually": "0 0 0 1 1 *",
	"@monthly":  "0 0 0 1 * *",
	"@weekly":   "0 0 0 * * 0",
	"@daily":    "0 0 0 * * *",
	"@midnight": "0 0 0 * * *",
	"@hourly":   "0 0 * * * *",
}

func (s *Schedule) parseMacro(text span, loc *time.Location, literal bool) *Error {
	words := fields(text)
	if strings.EqualFold(words[0].text, "@every") {
		return s.parseEvery(words)
	}
	expansion, ok := macros[strings.ToLower(words[0].text)]
	if !ok {
		return words[0].fail("schedule", "%s is unknown; there are @every, @yearly, @annually, @monthly, @weekly, "+
			"@daily, @midnight and @hourly", quote(words[0].text))
	}
	if len(words) > 1 {
		return words[1].fail("schedule", "nothing may follow %s", words[0].text)
	}
	return s.parseCron(span{expansion, text.pos}, loc, literal)
}

// Repeats is n of an ISO 8601 repeat Rn/…, the number of runs; ok is false when it has no limit or is
// something else. A set of several schedules has none.
func (s *Schedule) Repeats() (n uint64, ok bool) { return s.runs, s.runs > 0 }

// Start is the start written in an ISO 8601 repeat, in UTC; of a set, in the first that has one. With one,
// Next ends after n runs; without, the caller counts.
func (s *Schedule) Start() (t time.Time, ok bool) { return s.start, s.hasStart }

// Anchored reports whether fire times count from the anchor: @every without a phase, ISO 8601 repeats without
// a start, a set with one of these. Such a schedule fires at its first due time itself; any other fires at
// its first match at or after it.
func (s *Schedule) Anchored() bool { return s.anchored }

// Period is the elapsed time from one fire time to the next, of @every and of ISO 8601 periods of hours,
// minutes and seconds; 0 when it is not constant.
func (s *Schedule) Period() time.Duration { return s.period }

// String is the expression as it was written.
func (s *Schedule) String() string { return s.text }
