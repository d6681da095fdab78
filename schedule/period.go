package schedule

import (
	"math"
	"math/bits"
	"strings"
	"time"
)

const (
	maxDuration = time.Duration(math.MaxInt64)
	maxDays     = 10000 * 366 // no period longer than all the years there are
	maxMonths   = 10000 * 12
)

// unit is one designator of an ISO 8601 duration; exactly one of its lengths is set.
type unit struct {
	letter       byte
	months, days int64
	elapsed      time.Duration
}

// In the order in which they have to appear (ISO 8601-1:2019, 5.5.2.2).
var (
	dateUnits = []unit{{letter: 'Y', months: 12}, {letter: 'M', months: 1}, {letter: 'W', days: 7},
		{letter: 'D', days: 1}}
	timeUnits = []unit{{letter: 'H', elapsed: time.Hour}, {letter: 'M', elapsed: time.Minute},
		{letter: 'S', elapsed: time.Second}}
)

// parseISO reads an ISO 8601 duration: P, then nY nM nW nD, then T with nH nM nS, the last of which may have
// a fraction. Weeks may stand beside other parts, as in ISO 8601-2.
func parseISO(text span, field string) (period, *Error) {
	var p period
	date, clock := text, span{}
	if t := strings.IndexByte(text.text, 'T'); t >= 0 {
		date, clock = text.to(t), text.from(t+1)
		if clock.text == "" {
			return p, clock.fail(field, "nothing follows the T; write for example PT90S")
		}
	}
	if !strings.HasPrefix(date.text, "P") {
		return p, date.fail(field, "an ISO 8601 duration begins with P, for example PT15M or P1M")
	}
	if len(text.text) == 1 {
		return p, text.fail(field, "nothing follows the P; write for example P1D or PT90S")
	}
	if err := p.parseUnits(date.from(1), field, dateUnits, "Y, M, W, D"); err != nil {
		return p, err
	}
	err := p.parseUnits(clock, field, timeUnits, "H, M, S")
	return p, err
}

// parseUnits reads one side of the T.
func (p *period) parseUnits(text span, field string, units []unit, letters string) *Error {
	for text.text != "" {
		length := strings.IndexFunc(text.text,
			func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != ',' })
		if length <= 0 {
			return text.fail(field, "want a number and one of %s here, before %s", letters, quote(text.text))
		}
		at := 0
		for at < len(units) && units[at].letter != text.text[length] {
			at++
		}
		if at == len(units) {
			return text.from(length).fail(field, "%s cannot stand here; want one of %s, each once, in this order",
				quote(text.text[length:length+1]), letters)
		}
		fraction, err := p.add(text.to(length), field, units[at])
		if err != nil {
			return err
		}
		text, units = text.from(length+1), units[at+1:]
		if fraction && text.text != "" {
			return text.fail(field, "nothing may follow a part with a fraction")
		}
	}
	return nil
}

// add adds a number of units and says whether the number had a fraction.
func (p *period) add(text span, field string, u unit) (fraction bool, err *Error) {
	whole, rest := text.text, ""
	if point := strings.IndexAny(whole, ".,"); point >= 0 {
		whole, rest, fraction = whole[:point], whole[point+1:], true
	}
	n, ok := number(whole)
	if !ok {
		return fraction, text.fail(field, "%s is not a number", quote(text.text))
	}
	if u.elapsed == 0 {
		if fraction {
			return true, text.fail(field, "only hours, minutes and seconds can have a fraction")
		}
		p.months += n * u.months
		p.days += n * u.days
		if p.months > maxMonths || p.days > maxDays {
			return false, text.fail(field, "%s is longer than ten thousand years", shorten(text.text))
		}
		return false, nil
	}
	if n > int64((maxDuration-p.elapsed)/u.elapsed) {
		return fraction, tooLong(text, field)
	}
	p.elapsed += time.Duration(n) * u.elapsed
	if !fraction {
		return false, nil
	}
	part, ok := fractionOf(rest, u.elapsed)
	if !ok {
		return true, text.fail(field, "%s is not a number with 1 to 9 decimals", quote(text.text))
	}
	if part > maxDuration-p.elapsed {
		return true, tooLong(text, field)
	}
	p.elapsed += part
	return true, nil
}

// fractionOf is 0.digits of a unit, rounded down to a nanosecond.
func fractionOf(digits string, unit time.Duration) (time.Duration, bool) {
	n, ok := number(digits)
	if !ok || len(digits) > 9 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(n), uint64(unit))
	part, _ := bits.Div64(hi, lo, uint64(math.Pow10(len(digits))))
	return time.Duration(part), true
}

func tooLong(text span, field string) *Error {
	return text.fail(field, "%s is longer than the longest duration, 292 years", shorten(text.text))
}
