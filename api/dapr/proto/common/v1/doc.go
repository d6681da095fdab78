// Package commonv1 is what the protocol of Dapr's Scheduler needs of Dapr's common messages. Every other file
// is generated.
package commonv1
