// Package dapr tests Carillon in the place of Dapr's Scheduler with Dapr itself: its sidecar, its placement
// service, its command line and, to move jobs from and to, its scheduler. The environment says where they are:
// CARILLON_TEST_DAPR names a folder with the programs daprd, placement, scheduler and dapr of Dapr 1.18. Without
// it the tests are skipped, and say so. The package has a module of its own, because of the workflow client.
//
//	installation_test.go  the programs, started and ended with a test
//	app_test.go           the app beside a sidecar: jobs, reminders and workflows that come to it
//	one_test.go           one scheduler: what an app does with it
//	members_test.go       three schedulers: limits, kills, rolling restarts
//	move_test.go          jobs that move from Dapr's scheduler, and back
package dapr
