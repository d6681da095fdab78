package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTokenFiles: a wrong one is refused at the start, and later; a change counts once it is whole.
func TestTokenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const one, two = "eyJhIjoxfQ.eyJhIjoxfQ.AAAA", "eyJhIjoyfQ.eyJhIjoyfQ.AAAA"
	for text, want := range map[string]string{"": "empty", "a b": "a space", "ck_a\nck_b": "a space", "ck_é": "a space",
		"eyJhIj": "no whole JWT", "eyJhIjoxfQ.eyJh.": "no whole JWT", "eyJhIjoxfQ.eyJhI.AAAA": "no whole JWT", "ck_a": "",
		one + "\n": ""} {
		write(text)
		_, err := (&shownKey{file: path}).options()
		if (err == nil) != (want == "") {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil {
			continue
		}
		_, usage := errors.AsType[*usageError](err)
		if !usage || !strings.HasPrefix(err.Error(), "--token-file: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := &tokenFile{path: path}
		is := func(want string, fault bool) {
			t.Helper()
			if got, err := f.token(context.Background()); got != want || (err != nil) != fault {
				t.Errorf("%q, %v", got, err)
			}
		}
		write(one)
		is(one, false)
		write(two)
		is(one, false)             // within a second
		time.Sleep(tokenLookEvery) //nolint:forbidigo // in a bubble
		write(two[:len(two)-5])
		time.AfterFunc(tokenSettles/2, func() { write(two) })
		is(two, false)
		time.Sleep(tokenLookEvery) //nolint:forbidigo // in a bubble
		write("a b")
		is("", true)
		write(one)
		is(one, false)
	})
}
