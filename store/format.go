package store

import (
	"errors"
	"fmt"
	"strconv"
)

// format is that of everything a store writes: records, keys, tables' contents. A test that joins builds of different formats sets it by
// the linker, -ldflags "-X github.com/carillonhq/carillon/store.format=2".
var format = "1"

// Format is the version of everything this program writes. A store of another one is refused, see [CheckFormat].
func Format() int {
	n, err := strconv.Atoi(format)
	if err != nil || n < 1 {
		panic("store: format: " + strconv.Quote(format))
	}
	return n
}

// Errors of a store of another format.
var (
	// ErrNewerFormat: a later version of this program has written the store.
	ErrNewerFormat = errors.New("the store is of a newer version: run the carillon that wrote it, or a later one")
	// ErrOlderFormat: an earlier version has, and this one cannot bring it up to date.
	ErrOlderFormat = errors.New("the store is of an older version, which this one cannot bring up to date: run the carillon that wrote it")
)

// CheckFormat refuses a store whose format this program does not know, be it newer or older. The error names both.
func CheckFormat(has int) error {
	switch knows := Format(); {
	case has > knows:
		return fmt.Errorf("%w: its format is %d, this program knows %d", ErrNewerFormat, has, knows)
	case has < knows:
		return fmt.Errorf("%w: its format is %d, this program knows %d", ErrOlderFormat, has, knows)
	}
	return nil
}
