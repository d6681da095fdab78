// Package grpcapi is the gRPC face of a [carillon.Scheduler]: carillon.v1.SchedulerService, health and
// reflection.
//
//	service.go   the service, what its calls have in common, and calls about schedules and namespaces
//	jobs.go      calls about jobs
//	runs.go      calls about runs and backfills
//	bulk.go      PutJobs, the client stream
//	work.go      Work, the stream of workers
//	parts.go     its messages, cut to size
//	cluster.go   carillon.v1.ClusterService, beside it
//	server.go    the gRPC server around it, its limits
//	events.go    the service of events
//	guard.go     what is around every call: panics, errors, deadlines
//
// A [Service] returns *[carillon.Error]; the server turns it into a status that carries it whole. REST
// (server/internal/httpapi) calls the same Service in the process, without the server.
package grpcapi
