package schedule_test

import (
	"fmt"
	"strings"
	"time"
)

// sample is a cron expression made together with what it means, so that no second parser is needed. The
// meaning is put as plainly as it can be: questions about one second, one hour, one date.
type sample struct {
	expr                 string
	second, minute, hour func(int) bool
	date                 func(year int, month time.Month, day int) bool
	fixed                bool
}

// choose gives a number in [0, n).
type choose func(n int) int

// newSample makes a random expression. near is a wall clock reading whose parts it prefers.
func newSample(pick choose, near time.Time) sample {
	var s sample
	var text [7]string
	wild := false
	part := func(low, high, favourite, stars int) (string, func(int) bool) {
		t, f := newList(pick, low, high, favourite, stars, nil)
		wild = wild || strings.ContainsAny(t, "*/")
		return t, f
	}
	text[0], s.second = part(0, 59, near.Second(), 1)
	text[1], s.minute = part(0, 59, near.Minute(), 3)
	text[2], s.hour = part(0, 23, near.Hour(), 3)
	s.fixed = !wild
	dom, domOK, domFree := newDom(pick, near)
	month, monthOK := newList(pick, 1, 12, int(near.Month()), 12, monthNames)
	dow, dowOK, dowFree := newDow(pick, near)
	both := !domFree && !dowFree && pick(2) == 0
	text[3], text[4], text[5] = dom, month, dow
	if both {
		text[5] = "+" + dow
	}
	yearOK := func(int) bool { return true }
	fields := text[:6]
	if y := near.Year(); pick(8) == 0 && y >= 1970 && y < 2190 {
		low, high := y-pick(2), y+pick(3)
		text[6], yearOK = fmt.Sprintf("%d-%d", low, high), func(v int) bool { return v >= low && v <= high }
		fields = text[:]
	}
	s.expr = strings.Join(fields, " ")
	s.date = func(year int, m time.Month, day int) bool {
		if !yearOK(year) || !monthOK(int(m)) {
			return false
		}
		switch a, b := domOK(year, m, day), dowOK(year, m, day); {
		case domFree || dowFree || both: // a free field matches every date
			return a && b
		default:
			return a || b
		}
	}
	return s
}

var (
	monthNames = strings.Fields("JAN feb Mar APR may Jun JUL aug Sep OCT nov Dec")
	dayNames   = strings.Fields("SUN mon Tue WED thu Fri SAT")
)

// newList makes a star, `stars` times in twenty, or up to three items.
func newList(pick choose, low, high, favourite, stars int, names []string) (string, func(int) bool) {
	if pick(20) < stars {
		return "*", func(int) bool { return true }
	}
	var texts []string
	var tests []func(int) bool
	for range 1 + pick(3)*pick(2) {
		t, f := newItem(pick, low, high, favourite, names)
		texts, tests = append(texts, t), append(tests, f)
	}
	return strings.Join(texts, ","), anyOf(tests)
}

func anyOf(tests []func(int) bool) func(int) bool {
	return func(v int) bool {
		for _, f := range tests {
			if f(v) {
				return true
			}
		}
		return false
	}
}

func newItem(pick choose, low, high, favourite int, names []string) (string, func(int) bool) {
	size := high - low + 1
	value := func() int {
		if pick(2) == 0 {
			return low + ((favourite-low+pick(3)-1)%size+size)%size
		}
		return low + pick(size)
	}
	show := func(v int) string {
		if names != nil && pick(2) == 0 {
			return names[v-low]
		}
		return fmt.Sprint(v)
	}
	a, b, n := value(), value(), 1+pick(size)
	cycle := func(v int) int { return ((v-a)%size + size) % size } // steps forward from a to v
	switch pick(9) {
	case 0:
		return fmt.Sprintf("%s-%s", show(a), show(b)), func(v int) bool { return cycle(v) <= cycle(b) }
	case 1:
		return fmt.Sprintf("%s-%s/%d", show(a), show(b), n),
			func(v int) bool { return cycle(v) <= cycle(b) && cycle(v)%n == 0 }
	case 2:
		return fmt.Sprintf("%s/%d", show(a), n), func(v int) bool { return v >= a && (v-a)%n == 0 }
	case 3:
		return fmt.Sprintf("*/%d", n), func(v int) bool { return (v-low)%n == 0 }
	}
	return show(a), func(v int) bool { return v == a }
}

type dateTest = func(year int, month time.Month, day int) bool

func lastOf(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

func weekdayOf(year int, month time.Month, day int) time.Weekday {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()
}

func newDom(pick choose, near time.Time) (string, dateTest, bool) {
	always := func(int, time.Month, int) bool { return true }
	n := 1 + (near.Day()+pick(3)+29)%31
	switch pick(12) {
	case 0, 1, 2, 3:
		return "*", always, true
	case 4:
		return "?", always, true
	case 5:
		return "L", func(y int, m time.Month, d int) bool { return d == lastOf(y, m) }, false
	case 6:
		n := 1 + pick(30)
		return fmt.Sprintf("l-%d", n), func(y int, m time.Month, d int) bool { return d == lastOf(y, m)-n }, false
	case 7:
		return "LW", func(y int, m time.Month, d int) bool { return d == nearestWorkday(y, m, lastOf(y, m)) }, false
	case 8:
		return fmt.Sprintf("%dW", n), func(y int, m time.Month, d int) bool {
			return n <= lastOf(y, m) && d == nearestWorkday(y, m, n)
		}, false
	}
	text, f := newList(pick, 1, 31, near.Day(), 0, nil)
	return text, func(_ int, _ time.Month, d int) bool { return f(d) }, false
}

// nearestWorkday looks at every workday of the month and takes the nearest.
func nearestWorkday(year int, month time.Month, day int) int {
	best := 100
	for d := 1; d <= lastOf(year, month); d++ {
		w := weekdayOf(year, month, d)
		if w != time.Saturday && w != time.Sunday && (d-day)*(d-day) < (best-day)*(best-day) {
			best = d
		}
	}
	return best
}

func newDow(pick choose, near time.Time) (string, dateTest, bool) {
	w := (near.Weekday() + time.Weekday(pick(3)) + 6) % 7
	name := dayNames[w]
	if pick(2) == 0 {
		name = fmt.Sprint(int(w))
		if w == 0 && pick(2) == 0 {
			name = "7"
		}
	}
	switch pick(12) {
	case 0, 1, 2, 3:
		return "*", func(int, time.Month, int) bool { return true }, true
	case 4:
		return "?", func(int, time.Month, int) bool { return true }, true
	case 5, 6:
		return name + "L", func(y int, m time.Month, d int) bool {
			return weekdayOf(y, m, d) == w && d+7 > lastOf(y, m)
		}, false
	case 7, 8:
		k := 1 + pick(5)
		return fmt.Sprintf("%s#%d", name, k), func(y int, m time.Month, d int) bool {
			return weekdayOf(y, m, d) == w && (d+6)/7 == k
		}, false
	}
	text, f := newList(pick, 0, 6, int(w), 0, dayNames)
	return text, func(y int, m time.Month, d int) bool { return f(int(weekdayOf(y, m, d))) }, false
}
