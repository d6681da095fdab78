package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// format is the version of everything a store writes: records, keys, tables' contents. A test with builds of
// different formats sets it by the linker, -ldflags "-X
// github.com/carillonhq/carillon/server/store.format=7".
//
// A program decodes a record, keeps the fields that it knows, and writes those back. So the format is raised
// with every field that a program of the format before must not drop: a new field of a record that is
// rewritten, such as State, is a new format. A test pins both together.
//
//	1  the first
//	2  what a term that was killed may have handed out: State.Settled, RunState.Doubt and InDoubt; Wait.Since; counters Dropped
//	   and Cancelled; AttemptError.Redriven; metadata records of kind 'd'; Namespace.generation, which a build without it
//	   counts from 1 again: no more is lost by that than the refusal of a put meant for an older one
//	3  what operators ask and steer (docs/decisions/0068): RunRecord.Queue and Labels; the indexes of phases and of finished runs;
//	   trace contexts of calls: State.Trace and RunRecord.Trace; metadata records of kind 'u' (0070);
//	   History.no_results, FailurePolicy.pause_after, LastRun.failures (0069); metadata records
//	   of the kinds 'v' and 'w': events and their watchers (0071);
//	   calendars: Spec.except and only, metadata records of kind 'c' (0075)
//	4  webhooks, and events of nodes and queues (0076): Namespace.webhooks and unserved_after; Event.queue,
//	   queue_kind and node; EventList.unrecorded; Watched.whole; metadata records of kinds 'h' and 't'
//	5  payloads in a store of their own (0084): Spec.payload; Wait.told_epoch; origins in metadata records of kind 'd' (0087);
//	   targets of webhooks at brokers, and await_completion (0092)
//	6  who has called what (0102): metadata records of kinds 'j' and 'x'
//	6  API keys with two secrets (0103): AccessKey.before, overlap_ends, rotated and rotator
//	6  quotas of namespaces (0100): Namespace.quotas, State.payload
//	6  rates and quotas of attempts (0101): Namespace.quotas and rate_limits; the levels of buckets, and what of an
//	   allocation is used up, in metadata records of kind 'g'
//	6  what is encrypted (0105): Spec.sealed, RunState.sealed, RunRecord.sealed, Event.sealed, Namespace.sealed; metadata
//	   records of kind 's'
var format = "6"

// Format returns the version of everything this program writes. A store of another one is refused, see
// [CheckFormat].
func Format() int {
	n, err := strconv.Atoi(format)
	if err != nil || n < 1 {
		panic("store: format: " + strconv.Quote(format))
	}
	return n
}

// extends lists the formats that only add to the one before: a store is brought up to date by writing the new
// number.
var extends = map[int]bool{2: true, 3: true, 4: true, 5: true, 6: true}

// Extends reports whether this program can bring a store of an older format up to date just by writing its
// own format. No program of the older format may have the store open then: it would drop what it does not
// know.
func Extends(has int) bool {
	for f := has + 1; f <= Format(); f++ {
		if !extends[f] {
			return false
		}
	}
	return has >= 1 && has < Format()
}

// Errors of a store of another format.
var (
	// ErrNewerFormat: a later version of this program has written the store.
	ErrNewerFormat = errors.New("the store is of a newer version: run the carillon that wrote it, or a later one")
	// ErrOlderFormat: an earlier version has written it, and this one cannot bring it up to date.
	ErrOlderFormat = errors.New("the store is of an older version, which this one cannot bring up to date: run the carillon that wrote it")
	// ErrOutdated: an earlier version has written it, and it was to be left as it is.
	ErrOutdated = errors.New("the store is of an older version, and is to be brought up to date first")
	// ErrInUse: this version could bring the store up to date, but living nodes of an earlier one could not
	// go on with it.
	ErrInUse = errors.New("nodes of an older version live, which could not go on with what this one makes of the store: end all of them first")
)

// CheckAsIs refuses a store of an older format that [Options.AsIs] keeps from being brought up to date.
func CheckAsIs(has int, asIs bool) error {
	if asIs && Extends(has) {
		return fmt.Errorf("%w: its format is %d, this program writes %d", ErrOutdated, has, Format())
	}
	return nil
}

// CheckUnused refuses to bring a store up to date from an older format while nodes live, by their names.
func CheckUnused(has int, living []string) error {
	if len(living) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the store's format is %d, and this carillon makes it %d; there live %s",
		ErrInUse, has, Format(), strings.Join(slices.Sorted(slices.Values(living)), ", "))
}

// CheckFormat refuses a store whose format is newer or older than this program's. The error names both.
func CheckFormat(has int) error {
	switch knows := Format(); {
	case has > knows:
		return fmt.Errorf("%w: its format is %d, this program knows %d", ErrNewerFormat, has, knows)
	case has < knows:
		return fmt.Errorf("%w: its format is %d, this program knows %d", ErrOlderFormat, has, knows)
	}
	return nil
}
