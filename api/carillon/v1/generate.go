// Package carillonv1 is the API of Carillon as gRPC sees it, and nothing else: every file besides this one is
// generated. REST is its transcoding by the google.api.http annotations of scheduler.proto.
package carillonv1

//go:generate env GOWORK=off go -C ../../../tools tool buf generate --template buf.gen.yaml
//go:generate env GOWORK=off go -C ../../../tools run ./openapi ../server/internal/httpapi/openapi.parts ../api ../server/internal/httpapi/openapi.json
