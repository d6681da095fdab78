// Package daprpb is a client of Dapr's scheduler, made from a description of the few calls that are measured.
package daprpb

//go:generate go -C ../../../tools tool buf generate --template ../bench/peers/daprpb/buf.gen.yaml
