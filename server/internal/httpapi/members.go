package httpapi

import "encoding/json"

// pair is a member of an object.
type pair struct {
	name  string
	value json.RawMessage // within the object that was read
}

// pairs are the members of an object. The syntax was checked.
func pairs(path string, raw []byte) (all []pair, err error) {
	s := values{raw: raw}
	if s.next() != '{' {
		return nil, wrongType(path, "an object")
	}
	for s.at++; s.next() != '}'; {
		if s.raw[s.at] == ',' {
			s.at++
			s.next()
		}
		var p pair
		if p.name, err = stringOf(path, s.value()); err != nil {
			return nil, err
		}
		s.next()
		s.at++ // the colon
		s.next()
		p.value = s.value()
		all = append(all, p)
	}
	return all, nil
}

// values goes through a text whose JSON syntax was checked.
type values struct {
	raw []byte
	at  int
}

// next goes on to what follows white space, and returns its first byte; 0 at the end.
func (s *values) next() byte {
	for ; s.at < len(s.raw); s.at++ {
		switch b := s.raw[s.at]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// value returns the value that begins here, and goes on to what follows it.
func (s *values) value() []byte {
	from, depth := s.at, 0
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case '"':
			s.text()
			if depth == 0 {
				return s.raw[from:s.at:s.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return s.raw[from:s.at:s.at]
			} else if depth < 0 { // it ends what a number or a word is in
				return s.raw[from:s.at:s.at]
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.raw[from:s.at:s.at]
			}
		}
		s.at++
	}
	return s.raw[from:s.at:s.at]
}

// text goes on to what follows the string that begins here.
func (s *values) text() {
	for s.at++; s.at < len(s.raw); s.at++ {
		switch s.raw[s.at] {
		case '\\':
			s.at++ // what is escaped
		case '"':
			s.at++
			return
		}
	}
}
