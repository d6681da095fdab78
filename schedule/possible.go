package schedule

// The Gregorian calendar repeats after 400 years, 146,097 days, a whole number of weeks. Within that cycle
// there are only 14 kinds of year: 1 January falls on one of seven weekdays, leap or not, and all 14 occur.
// What matches no day in any of them never fires: the proof looks at 14 × 12 months at most, not at 4,800,
// and those have only 28 shapes (days.go).

// yearKind is the weekday of 1 January, plus 7 in a leap year.
func yearKind(year int) int {
	kind := weekday(dayNumber(year, 1, 1))
	if daysIn(year, 2) == 29 {
		kind += 7
	}
	return kind
}

const allYearKinds = 1<<14 - 1

// listedKinds is the set of kinds among the years that the year field allows.
func (c *cronRule) listedKinds() (kinds uint32) {
	if c.anyYear {
		return allYearKinds
	}
	for year := firstListedYear; year <= lastListedYear; year++ {
		if c.year.has(year - firstListedYear) {
			kinds |= 1 << yearKind(year)
		}
	}
	return kinds
}

// matchesIn reports whether some day matches in some year of these kinds.
func (c *cronRule) matchesIn(kinds uint32) bool {
	var tried uint32 // shapes of months
	for ; kinds != 0; kinds &= kinds - 1 {
		kind := lowest(kinds)
		first := kind % 7
		for month := 1; month <= 12; month++ {
			length := daysIn(2001, month)
			if month == 2 && kind >= 7 {
				length++
			}
			shape := uint32(1) << (first + 7*(length-28))
			if c.month>>month&1 != 0 && tried&shape == 0 {
				if c.days.mask(first, length) != 0 {
					return true
				}
				tried |= shape
			}
			first = (first + length) % 7
		}
	}
	return false
}

// refuseImpossible takes the fields from day of month on. It judges dates alone: whether the clocks of a zone
// ever show a time of day on them is for Next to find.
func (c *cronRule) refuseImpossible(words []span) *Error {
	if c.matchesIn(c.listedKinds()) {
		return nil
	}
	if !c.anyYear && c.matchesIn(allYearKinds) {
		return words[3].fail(yearField.name, "the schedule never fires: none of these years has such a day")
	}
	blamed, name := words[0], domField.name
	if c.days.domAny {
		blamed, name = words[2], dowField.name
	}
	return blamed.fail(name, "the schedule never fires: no month it allows has such a day in the 400-year cycle of the calendar")
}
