// Package carillonv1 is the API of Carillon as gRPC sees it, and nothing else: every file besides this one is
// generated. REST is its transcoding by the google.api.http annotations of scheduler.proto.
package carillonv1

//go:generate go -C ../../../tools tool buf generate --template buf.gen.yaml
//go:generate go -C ../../../tools run ./openapi ../internal/httpapi/openapi.parts ../api ../internal/httpapi/openapi.json
