package storetest_test

import (
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// brokenSubmits are stores that take groups wrongly.
var brokenSubmits = []broken{
	{fault: "applies part of what is submitted", caughtBy: "submit/all batches are applied",
		build: submitting(func(writes []store.Write, done func(error), next submit) {
			next(writes[:1], done)
		})},
	{fault: "applies what is submitted one by one", caughtBy: "submit/one wrong term refuses all",
		build: grouping(oneByOne)},
	{fault: "submits under a stale term",
		caughtBy: "submit/nothing lands after one of its partitions was claimed", build: ignoresStale},
	{fault: "loses every fourth submission", caughtBy: "submit/beside other groups and single batches",
		build: losesGroups},
	{fault: "reports an outcome twice", caughtBy: "submit/the outcome comes once",
		build: submitting(func(writes []store.Write, done func(error), next submit) {
			next(writes, func(err error) { done(err); done(err) })
		})},
	{fault: "reports success before it knows", caughtBy: "submit/the outcome comes once",
		build: submitting(reportsSuccess)},
	{fault: "reports the outcome before it is durable", caughtBy: "submit/survives a crash",
		build: reportsEarly},
	{fault: "applies a submission late", caughtBy: "submit/behaves like the model", build: reportsEarly},
	{fault: "forgets what was submitted", caughtBy: "submit/survives a reopen", reopen: asNew,
		build: submitting(faultless)},
	{fault: "is closed with submissions on their way", caughtBy: "submit/a close waits for outcomes",
		build: submitting(func([]store.Write, func(error), submit) {})},
	{fault: "takes submissions after a close", caughtBy: "submit/after a close nothing is taken",
		build: submitting(faultless), reopen: func(s store.Store) store.Store { return s }},
}

// submitting makes faults of submissions.
func submitting(f func(writes []store.Write, done func(error), next submit)) func(*memory.Store) faults {
	return func(*memory.Store) faults { return faults{submit: f} }
}

func faultless(writes []store.Write, done func(error), next submit) {
	next(writes, done)
}

func reportsSuccess(writes []store.Write, done func(error), next submit) {
	next(writes, func(error) { done(nil) })
}

// reportsEarly keeps each submission until the next one, and loses the last.
func reportsEarly(*memory.Store) faults {
	kept := func() {}
	return faults{submit: func(writes []store.Write, done func(error), next submit) {
		kept()
		kept = func() { next(writes, func(error) {}) }
		done(nil)
	}}
}
