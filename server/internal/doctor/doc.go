// Package doctor examines what a store holds, and mends what can be mended without a guess: `carillon doctor`
// (docs/decisions/0083).
//
//	doctor.go   a whole store: by whom it may be looked at, and when it is claimed
//	kinds.go    what is looked for, and what mending does
//	report.go   what was found
//	records.go  jobs with their pending runs
//	record.go   a record by itself
//	history.go  finished runs
//	meta.go     metadata records
//	index.go    indexes, through queries alone
package doctor
