package engine

import (
	"errors"
	"testing"

	"github.com/carillonhq/carillon"
)

func TestKeysOfCallsGetTheDefaultNamespace(t *testing.T) {
	for _, c := range []struct {
		key, want carillon.Key
		field     string
	}{
		{carillon.Key{Name: "a"}, carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}, ""},
		{carillon.Key{Namespace: "ns", Name: "a/b"}, carillon.Key{Namespace: "ns", Name: "a/b"}, ""},
		{carillon.Key{Namespace: "ns"}, carillon.Key{Namespace: "ns"}, "name"},
		{carillon.Key{Namespace: "n/s", Name: "a"}, carillon.Key{Namespace: "n/s", Name: "a"}, "namespace"},
	} {
		got := c.key
		if field := fieldOf(checkKey(&got)); field != c.field || got != c.want {
			t.Errorf("%v: becomes %v, wrong in %q", c.key, got, field)
		}
	}
}

// TestNoPrefixDeletesEverything: an empty one is a mistake.
func TestNoPrefixDeletesEverything(t *testing.T) {
	for _, c := range []struct{ namespace, prefix, field string }{
		{"ns", "a/", ""},
		{"ns", "", "prefix"},
		{"n/s", "a/", "namespace"},
		{"", "a/", "namespace"},
		{"ns", "a\x00", "prefix"},
	} {
		if field := fieldOf(checkPrefix(c.namespace, c.prefix)); field != c.field {
			t.Errorf("%q in %q: wrong in %q, want %q", c.prefix, c.namespace, field, c.field)
		}
	}
}

// fieldOf is the field that an error names.
func fieldOf(err error) string {
	if e, ok := errors.AsType[*carillon.Error](err); ok {
		return e.Field
	}
	return ""
}
