// Package dapr describes the protocol of Dapr's Scheduler: every Go file in the folders below is generated.
// They register under Dapr's names, so no program can link them together with Dapr's own Go packages.
package dapr

//go:generate env GOWORK=off go -C ../../tools tool buf generate --template buf.dapr.gen.yaml
