// Package manifest reads and writes files of jobs, in YAML or JSON, several to a file, each in the form of
// the REST API.
//
//   - read.go: files into jobs, with the position of each fault
//   - convert.go: YAML into JSON
//   - position.go: where a field stands in a file
//   - write.go: jobs into YAML that reads back the same
//   - crontab.go: the lines of a crontab into jobs
//   - cronjob.go: CronJobs of Kubernetes into jobs
package manifest
