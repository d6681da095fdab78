package schedule

import (
	"strings"
	"sync"
	"time"
)

// cutZone cuts a TZ= or CRON_TZ= prefix off (names of zones have no blanks).
func cutZone(text span) (zone, rest span, ok bool) {
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		if !strings.HasPrefix(text.text, prefix) {
			continue
		}
		zone = text.from(len(prefix))
		end := strings.IndexFunc(zone.text, isBlank)
		if end < 0 {
			end = len(zone.text)
		}
		return zone.to(end), zone.from(end), true
	}
	return text, text, false
}

// zones keeps what was loaded by name, as each load reads and parses a file. It holds no more than there are
// zones.
var zones sync.Map // string → *time.Location

func loadZone(name span) (*time.Location, *Error) {
	switch name.text {
	case "":
		return nil, name.fail("time zone", "no name after the =; write for example TZ=Europe/Paris")
	case "Local":
		return nil, name.fail("time zone", "Local differs from node to node; write a name such as Europe/Paris")
	}
	if loc, ok := zones.Load(name.text); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name.text)
	if err != nil {
		return nil, name.fail("time zone", "%s is unknown; write an IANA name such as Europe/Paris",
			quote(name.text))
	}
	known, _ := zones.LoadOrStore(name.text, loc)
	return known.(*time.Location), nil
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }

func trim(s span) span {
	left := strings.TrimLeftFunc(s.text, isBlank)
	return span{strings.TrimRightFunc(left, isBlank), s.pos + len(s.text) - len(left)}
}

// fields splits at blanks; each field knows its position.
func fields(s span) []span {
	words := make([]span, 0, 7)
	for s = trim(s); s.text != ""; s = trim(s) {
		end := strings.IndexFunc(s.text, isBlank)
		if end < 0 {
			end = len(s.text)
		}
		words = append(words, s.to(end))
		s = s.from(end)
	}
	return words
}
