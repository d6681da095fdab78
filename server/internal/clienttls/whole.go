package clienttls

import (
	"bytes"
	"encoding/pem"
	"errors"
)

// errPart is what is wrong with a file that was read while it was written, or that is damaged.
var errPart = errors.New("it has parts that are no PEM: it may be half written or damaged; " +
	"only blank lines and lines that begin with # may follow the last block")

// Whole returns an error if PEM has parts that readers would skip: a block that does not decode, or anything
// but blank lines and comments after the last one. What it would mean without them is not what was meant.
// Text before a block is one of its comments.
func Whole(text []byte) error {
	begun := bytes.Count(text, []byte("-----BEGIN "))
	rest := text
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		begun, rest = begun-1, after
	}
	if begun != 0 {
		return errPart
	}
	if len(rest) == len(text) {
		return nil // there is no block, which readers say better
	}
	for line := range bytes.Lines(rest) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return errPart
		}
	}
	return nil
}
