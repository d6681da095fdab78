package plan

import (
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// AttemptsKey is the metadata key of a job that another scheduler had begun to run: see [Attempts].
const AttemptsKey = "dapr.attempts"

// Attempts returns what the metadata of a Dapr job say under [AttemptsKey] if n attempts of the run of a
// scheduled time failed before the job came here.
func Attempts(scheduled time.Time, n uint32) string {
	return strconv.FormatUint(uint64(n), 10) + " " + scheduled.UTC().Format(time.RFC3339Nano)
}

// AttemptsBefore returns how many attempts of the run of a scheduled time failed before the job came here:
// its failure policy counts them, too.
func AttemptsBefore(j *carillon.Job, scheduled time.Time) int {
	if j.Target.Dapr == nil || j.Metadata[AttemptsKey] == "" {
		return 0
	}
	number, of, _ := strings.Cut(j.Metadata[AttemptsKey], " ")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || of != scheduled.UTC().Format(time.RFC3339Nano) {
		return 0
	}
	return int(n)
}
