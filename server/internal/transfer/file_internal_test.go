package transfer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
)

// TestAConnectionThatEndsIsNoEnd: the place of a backup may say so of a connection of its own. Nothing is known then, of
// damage or of the end.
func TestAConnectionThatEndsIsNoEnd(t *testing.T) {
	away := noAnswer{fmt.Errorf("read: %w", io.EOF)}
	for what, read := range map[string]func(*file) error{"a frame": func(f *file) error {
		_, _, err := f.frame()
		return err
	}, "the end": (*file).over} {
		f := &file{in: bufio.NewReader(iotest.ErrReader(away))}
		if err := read(f); !errors.Is(err, error(away)) || errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := (&file{in: bufio.NewReader(iotest.ErrReader(io.EOF))}).over(); err != nil {
		t.Errorf("the end that is one: %v", err)
	}
}
