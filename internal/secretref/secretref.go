// Package secretref reads what a header of an HTTP target says in place of a secret: secret://NAME, or one
// word and secret://NAME, such as "Bearer secret://NAME". The node that makes a request puts the value in,
// which its operator has named; the job has the name only.
package secretref

import (
	"errors"
	"fmt"
	"strings"
)

// Ref is a reference to a secret.
type Ref struct {
	Scheme string // the word before; "" if there is none
	Name   string
}

const prefix = "secret://"

// Parse returns the reference that a header's value is; ok: it is one. An error says why a value that has
// secret:// in it is none.
func Parse(value string) (ref Ref, ok bool, err error) {
	at := strings.Index(strings.ToLower(value), prefix)
	if at < 0 {
		return ref, false, nil
	}
	if !strings.HasPrefix(value[at:], prefix) {
		return ref, false, fmt.Errorf("%s is to be in lower case", prefix)
	}
	ref.Name = value[at+len(prefix):]
	if at > 0 {
		word, spaced := strings.CutSuffix(value[:at], " ")
		if !spaced || word == "" || strings.ContainsFunc(word, isNotScheme) {
			return ref, false, errors.New("a secret is the whole value, secret://NAME, or follows one word and a space, " +
				"as in Bearer secret://NAME")
		}
		ref.Scheme = word
	}
	if err := CheckName(ref.Name); err != nil {
		return ref, false, err
	}
	return ref, true, nil
}

// maxName is the most bytes of a name.
const maxName = 63

// CheckName returns an error about a name that no secret can have.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the secret has no name; write secret://NAME")
	case len(name) > maxName:
		return fmt.Errorf("the secret's name has %d bytes, more than %d", len(name), maxName)
	case strings.ContainsFunc(name, isNotName):
		return errors.New("a secret's name may hold letters, digits, -, _ and . only")
	}
	return nil
}

func isLetterOrDigit(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

func isNotName(r rune) bool { return !isLetterOrDigit(r) && !strings.ContainsRune("-_.", r) }

// isNotScheme reports whether r is not allowed in the name of a scheme (RFC 9110, 11.1).
func isNotScheme(r rune) bool {
	return !isLetterOrDigit(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
