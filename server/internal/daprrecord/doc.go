// Package daprrecord says what a job of Dapr is in Carillon, and what a job of Carillon's is to Dapr: as its
// protocol has it, and as Dapr's scheduler stores it in etcd. It is pure.
//
//	whose is it, what is it called?         names.go
//	what does a request become, and back?   job.go: NewJob, ToDapr
//	what do its words mean?                 schedule.go, times.go, policy.go
//	what does a stored record become?       record.go, tojob.go
//	what record would Dapr have of a job?   fromjob.go
//	are two records the same job?           canonical.go
package daprrecord
