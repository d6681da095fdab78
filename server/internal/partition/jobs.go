package partition

// Jobs does what callers ask for.
type Jobs struct {
	cfg      *Config
	out      *builder
	contents *contents
	agenda   *agenda
	records  *Records
	due      *dueRuns
	attempts *Attempts
	window   *Window
	runs     *runs
	usage    *Usage

	backfills *Backfills
	applied   *AppliedMarkers
	commands  *Commands
	seal      func() // closes the batch being filled
}
