package schedule

import "strings"

// unrestricted: * and ? alone leave the day to the other field.
func unrestricted(text string) bool { return text == "*" || text == "?" }

// parseDom reads the day of month: the plain grammar and L, L-n, LW, nW.
func (f *days) parseDom(text span) *Error {
	if f.domAny = unrestricted(text.text); f.domAny {
		return nil
	}
	var plain bitset
	err := domField.parse(text, &plain, f.specialDom)
	f.dom = uint32(plain[0])
	return err
}

func (f *days) specialDom(item span) (bool, *Error) {
	upper := strings.ToUpper(item.text)
	switch {
	case upper == "L":
		f.fromEnd |= 1
	case upper == "LW":
		f.lastWorkday = true
	case strings.HasPrefix(upper, "L-"):
		n, ok := number(upper[2:])
		if !ok || n < 1 || n > 30 {
			return false, item.from(2).fail(domField.name, "%s is out of range: L-n takes 1-30", quote(item.text[2:]))
		}
		f.fromEnd |= 1 << n
	case strings.HasSuffix(upper, "W"):
		n, err := domField.value(item.to(len(item.text) - 1))
		if err != nil {
			return false, err
		}
		f.nearest |= 1 << n
	default:
		return false, nil
	}
	return true, nil
}

// parseDow reads the day of week: the plain grammar, wL, w#k, and a + before it all.
func (f *days) parseDow(text span) *Error {
	if strings.HasPrefix(text.text, "+") {
		f.bothRequired = true
		text = text.from(1)
	}
	if f.dowAny = unrestricted(text.text); f.dowAny {
		return nil
	}
	var plain bitset
	err := dowField.parse(text, &plain, f.specialDow)
	f.dow = uint8(plain[0])
	return err
}

func (f *days) specialDow(item span) (bool, *Error) {
	if hash := strings.IndexByte(item.text, '#'); hash >= 0 {
		return true, f.addNth(item.to(hash), item.from(hash+1))
	}
	last := len(item.text) - 1
	if item.text[last] != 'L' && item.text[last] != 'l' {
		return false, nil
	}
	if last == 0 {
		return false, item.fail(dowField.name,
			"L needs a day before it, for example FRIL, the last Friday of the month")
	}
	w, err := dowField.value(item.to(last))
	if err != nil {
		return false, err
	}
	f.lastDow |= 1 << (w % 7)
	return true, nil
}

func (f *days) addNth(day, nth span) *Error {
	w, err := dowField.value(day)
	if err != nil {
		return err
	}
	k, ok := number(nth.text)
	if !ok || k < 1 || k > 5 {
		return nth.fail(dowField.name, "%s is out of range: the number after # is 1-5", quote(nth.text))
	}
	f.nthDow[k-1] |= 1 << (w % 7)
	return nil
}
