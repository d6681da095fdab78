// Package daprapi is the face that Dapr's sidecars know: the service dapr.proto.scheduler.v1.Scheduler over
// Carillon's jobs and runs. docs/dapr.md says what it promises.
//
//	what is a job of Dapr here?      names.go, job.go, policy.go
//	which schedules are taken?       schedule.go (cron as Dapr reads it), times.go (due times and ttl)
//	what is refused, and how?        validate.go, errors.go
//	the calls                        jobs.go, delete.go
//	runs and results                 watch.go
//	where the schedulers are         hosts.go
package daprapi
