// Package schedulerv1 is the protocol of Dapr's Scheduler. Every other file is generated.
package schedulerv1
