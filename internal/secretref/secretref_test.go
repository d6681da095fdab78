package secretref

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for value, want := range map[string]Ref{
		"secret://a":                                {"", "a"},
		"Bearer secret://a.B-c_9":                   {"Bearer", "a.B-c_9"},
		"Token secret://" + strings.Repeat("a", 63): {"Token", strings.Repeat("a", 63)},
		"plain": {}, "": {}, "Bearer abc": {}, "secret:/a": {}, "secret:a": {},
	} {
		ref, is, err := Parse(value)
		if err != nil || ref != want || is != (want != Ref{}) {
			t.Errorf("%q: %+v, %v, %v", value, ref, is, err)
		}
	}
	for _, value := range []string{"secret://", "SECRET://a", "Secret://a", "a b secret://c", "a  secret://b", " secret://a",
		"xsecret://a", "a,secret://b", "secret://a b", "secret://a secret://b", "secret://a/b", "secret://ä", "secret://a\n",
		"secret://" + strings.Repeat("a", 64), "b\tsecret://a", "ä secret://a"} {
		if ref, is, err := Parse(value); err == nil || is {
			t.Errorf("%q: %+v, %v", value, ref, is)
		}
	}
}
