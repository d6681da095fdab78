// Package wire turns the words of package carillon into the protobuf messages of carillon.v1 and back, and
// kinds of error into gRPC codes and HTTP statuses. These are the only such tables: both faces and the client
// use them.
//
// A function named XToProto cannot fail; XFromProto refuses what a word cannot hold (a duration that is none,
// an enum value of a later version), naming the field as it is written in JSON. Whether a word makes sense is
// not judged here.
//
// Maps and byte slices are shared between a word and its message, not copied: both are to be treated as
// read-only.
package wire
