package schedule

import "time"

const (
	// changeLimit parts daylight saving from a change of the calendar (cronie's three hours).
	changeLimit = 3 * 3600
	// maxOffset bounds the distance between civil and universal time; the widest in tzdata is under 16 h.
	maxOffset = 48 * 3600
	// forever ends a segment that has no end: far past year 9999, and safe to add an offset to.
	forever = 1 << 60
)

// segment is a stretch of instants, up to end in Unix seconds, over which civil = instant + offset. It has no
// start: ZoneBounds may report one too early in the year of a zone's last listed change
// (America/Ciudad_Juarez 2022, America/Indiana/Winamac 2007, America/Metlakatla 2019 with the embedded data),
// so changes are found going forward.
type segment struct {
	end    int64
	offset int64
}

// segmentAt finds the segment that holds an instant. It may end at a boundary that changes nothing.
func segmentAt(loc *time.Location, unix int64) segment {
	if loc == time.UTC {
		return segment{forever, 0}
	}
	t := time.Unix(unix, 0).In(loc)
	seg := segment{forever, offsetOf(t)}
	if _, end := t.ZoneBounds(); !end.IsZero() {
		seg.end = end.Unix()
	}
	if seg.end <= unix {
		// On 31 December of a leap year, ZoneBounds may put the end of the year a day early
		// (golang/go#81583).
		day, _ := splitCivil(unix)
		seg.end = (day + 1) * secondsPerDay
	}
	return seg
}

// offsetOf is held within maxOffset, so that not even a made-up zone breaks the arithmetic.
func offsetOf(t time.Time) int64 {
	_, offset := t.Zone()
	return min(max(int64(offset), -maxOffset), maxOffset)
}

// change is an instant at which the offset changes.
type change struct{ at, before, after int64 }

// recentChange finds the newest change within changeLimit before an instant, or at it.
func recentChange(loc *time.Location, unix int64) (newest change, ok bool) {
	seg := segmentAt(loc, unix-changeLimit)
	for seg.end <= unix {
		next := segmentAt(loc, seg.end)
		if next.offset != seg.offset {
			newest, ok = change{seg.end, seg.offset, next.offset}, true
		}
		seg = next
	}
	return newest, ok
}

// instantOf maps a wall clock reading to the first instant that shows it, or, when none does, to the instant
// at which the gap it falls in ends.
func instantOf(loc *time.Location, civil int64) int64 {
	seg := segmentAt(loc, civil-maxOffset) // nothing before that can show it
	for civil >= seg.end+seg.offset {
		start := seg.end
		seg = segmentAt(loc, start)
		if civil < start+seg.offset {
			return start
		}
	}
	return civil - seg.offset
}
