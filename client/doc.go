// Package client is the SDK for callers in other processes: a [carillon.Scheduler] over gRPC.
//
//	c, err := client.Dial("localhost:7070")
//	if err != nil { … }
//	defer c.Close()
//	_, err = c.PutJob(ctx, carillon.Job{Name: "reminders/42", Due: carillon.In(time.Hour),
//		Target: carillon.WorkerQueue("reminders"), Data: carillon.JSON(Reminder{User: 42})})
//
// Errors are [*carillon.Error], equal to those of a scheduler in the same process; test them with
// errors.Is(err, carillon.NotFound). An error with Unknown set leaves open whether the change was made: the
// connection or the deadline was lost between the call and its answer. The client repeats only calls that
// never reached a server, so whether to repeat such a call is the caller's decision; the doc of every call
// says whether that is harmless.
//
// Package worker runs handlers over a client.
package client
