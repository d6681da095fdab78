// Package daprapi is the face that Dapr's sidecars know: the service dapr.proto.scheduler.v1.Scheduler over
// Carillon's jobs and runs. docs/dapr.md says what it promises.
//
//	what is a job of Dapr here?      package daprrecord
//	what is refused, and how?        validate.go, errors.go
//	the calls                        jobs.go, delete.go
//	runs and results                 watch.go
//	where the schedulers are         hosts.go; settle.go: what happens before a change is told
package daprapi
