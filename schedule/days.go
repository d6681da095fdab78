package schedule

// days is the pair of day fields. All it needs to know of a month is its shape: the weekday of its 1st and
// its length.
type days struct {
	dom          uint32   // bit d: day d
	fromEnd      uint32   // bit n: n days before the last (L is bit 0)
	nearest      uint32   // bit d: the weekday nearest to day d (dW)
	lastWorkday  bool     // LW
	dow          uint8    // bit w: every weekday w, Sunday = 0
	lastDow      uint8    // bit w: the last weekday w of the month (wL)
	nthDow       [5]uint8 // bit w of k-1: the k-th weekday w of the month (w#k)
	domAny       bool     // * or ?: not restricted
	dowAny       bool
	bothRequired bool // + : day of month AND day of week
}

// mask has bit d set for each day d of the month that matches.
func (f *days) mask(first, length int) uint32 {
	all := (uint32(2) << length) - 2
	switch {
	case f.domAny && f.dowAny:
		return all
	case f.domAny:
		return f.dowMask(first, all)
	case f.dowAny:
		return f.domMask(first, length, all)
	case f.bothRequired:
		return f.domMask(first, length, all) & f.dowMask(first, all)
	}
	return f.domMask(first, length, all) | f.dowMask(first, all)
}

func (f *days) domMask(first, length int, all uint32) uint32 {
	mask := f.dom
	for rest := f.fromEnd; rest != 0; rest &= rest - 1 {
		if d := length - lowest(rest); d >= 1 {
			mask |= 1 << d
		}
	}
	for rest := f.nearest; rest != 0; rest &= rest - 1 {
		if d := lowest(rest); d <= length { // 31W has no meaning in a shorter month, as 31 has none
			mask |= 1 << nearestWorkday(d, first, length)
		}
	}
	if f.lastWorkday {
		mask |= 1 << nearestWorkday(length, first, length)
	}
	return mask & all
}

// nearestWorkday moves a Saturday back and a Sunday on, but never out of the month (Quartz).
func nearestWorkday(day, first, length int) int {
	switch (first + day - 1) % 7 {
	case 6:
		if day == 1 {
			return 3
		}
		return day - 1
	case 0:
		if day == length {
			return day - 2
		}
		return day + 1
	}
	return day
}

func (f *days) dowMask(first int, all uint32) uint32 {
	mask := onWeekdays(f.dow, first)
	for i, w := range f.nthDow {
		mask |= onWeekdays(w, first) & (0xfe << (7 * i)) // days 7i+1 to 7i+7
	}
	if f.lastDow != 0 {
		mask |= onWeekdays(f.lastDow, first) & (all &^ (all >> 7)) // the last seven days
	}
	return mask & all
}

// onWeekdays has bit d set for each d from 1 to 31 that falls on one of the weekdays w.
func onWeekdays(w uint8, first int) uint32 {
	const everySeventh = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35
	return uint32((uint64(w&0x7f) * everySeventh) >> first << 1)
}
