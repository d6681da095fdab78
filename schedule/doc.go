// Package schedule answers one question: when does it fire next?
//
// [Parse] turns a text into an immutable [Schedule]; [Schedule.Next] gives the first fire time after an
// instant. Nothing here reads a clock, keeps state or starts a goroutine: the next time follows from the last
// one, so a late node, a restart or a takeover never moves a schedule.
//
// # What can be written
//
//	30 2 * * *                         cron: minute, hour, day of month, month, day of week
//	0 30 2 * * *                       the same with the second in front
//	0 30 2 * * * 2026-2030             and with the year at the end
//	TZ=Europe/Paris 0 9 * * MON-FRI    in a time zone; CRON_TZ= does the same
//	@daily                             @yearly @annually @monthly @weekly @daily @midnight @hourly
//	@every 90s                         each 90 s from the first due time; Go or ISO 8601 duration, at least 1 ms
//	@every 1h/19m                      at 19 minutes past each whole hour since the Unix epoch
//	R4/PT3S                            ISO 8601: four runs, 3 s apart, from the first due time
//	R/2026-01-31T09:00:00Z/P1M         without end, each month from that start
//	0 9 * * MON-FRI; 0 12 * * SAT      several, with semicolons between them: whenever one of them fires
//
// # Cron fields
//
//	field          values               besides * , - /
//	second         0-59
//	minute         0-59
//	hour           0-23
//	day of month   1-31                 ?  L  L-n  LW  nW
//	month          1-12 or JAN-DEC
//	day of week    0-7 or SUN-SAT       ?  nL  n#k  and + before it all
//	year           1970-2199
//
// Names are taken in any case. 0 and 7 are both Sunday.
//
//	*, ?     every value; ? in the two day fields only
//	a,b      a list; each item may be any of the others
//	a-b      a range, which may wrap around: FRI-MON, 22-2 (not in years)
//	*/n      every n-th value; a-b/n within a range, a/n from a to the end of the field.
//	         n is at most the field's size
//	L, L-n   the last day of the month, the n-th before it (1-30)
//	nW, LW   the weekday (Monday to Friday) nearest to day n, or to the last day, in the same month.
//	         A month without day n has no nW
//	nL       the last such weekday of the month: FRIL
//	n#k      the k-th such weekday of the month (1-5): FRI#2
//
// When both day fields are restricted, which is to say anything but * or ?, a date that matches either will
// do: 0 0 13 * FRI is each 13th and each Friday. With + before the day of week it takes both: 0 0 13 * +FRI
// is Friday the 13th.
//
// An expression that can never fire (0 0 30 2 *) is refused, proved over the whole 400-year cycle of the
// calendar. A list of years that are all over is not: Next just finds nothing. The proof is about dates;
// whether the clocks of a zone ever show a time of day on them is found by Next.
//
// # When the clocks change
//
// This is the rule of cronie, Cronos and croner. A cron without *, ? or / in second, minute and hour has
// fixed times. Each runs exactly once on each matching day:
//
//   - a time that is skipped runs at the instant the gap ends; several such times make one run;
//   - a time that occurs twice runs at the first.
//
// Any other cron follows elapsed time: what does not exist is not run, what exists twice runs twice. So does
// everything with [Options].Literal. A change of more than three hours is a change of the calendar, as when
// Samoa left out 30 December 2011: nothing is made up for, and a day that repeats counts twice.
//
// # Intervals
//
// @every and ISO 8601 repeats without a start count from an anchor, the first due time: they fire at anchor +
// k·period, k = 0, 1, 2, … ([Schedule.Anchored]). Years and months of an ISO period move the wall clock in
// the schedule's location and clamp from the anchor (31 January, 28 February, 31 March); then weeks and days
// move it; then hours, minutes and seconds are added as elapsed time. A wall clock time in a gap, of whatever
// length, becomes the instant the gap ends; one that occurs twice, the first.
//
// # Several schedules
//
// A set of up to [MaxSet] schedules fires whenever one of them does; an instant at which several fire is one
// time. Each reads as it would alone, with a time zone, phase or start of its own; those that count from an
// anchor count from the same. A number of runs needs a start (R4/2026-01-01T00:00:00Z/PT15M): R4/PT15M would
// count the runs of all, and is refused.
//
// # Where to find what
//
//	when does it fire next?       next.go
//	what do the fields mean?      cron_parse.go, days_parse.go; matching: cron.go, days.go
//	gaps and overlaps             next.go (the rule), segments.go (where they are)
//	why was it refused?           possible.go, errors.go
//	@every, ISO 8601              every.go, iso.go, period.go, calendar.go
//	several schedules             set.go
//	which times calendars leave out  dates.go (what is in them), filter.go
//	points in time, durations     times.go
package schedule
