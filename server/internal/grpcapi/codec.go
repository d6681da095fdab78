package grpcapi

import (
	"strings"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// gRPC answers a message that it cannot decode as INTERNAL, before any of our code is asked: a server's
// fault, which callers try again. A string that is not UTF-8 is the usual cause, and the caller's fault. The
// code of that answer is not in a codec's hand. So the codec hands on a message of this contract empty and
// with a mark among its unknown fields, and what looks at those refuses it.

// unreadable is the mark: a field of the highest number that there may be, which no message has.
var unreadable = protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber,
	protowire.VarintType), 1)

// codec is gRPC's own for protobuf but for what it cannot decode.
type codec struct{ encoding.CodecV2 }

// newCodec makes one; gRPC's own has nothing to close.
func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(*batch); ok {
		return b.encoded(c.CodecV2)
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	m, ok := v.(proto.Message)
	if !ok || !strings.HasPrefix(string(m.ProtoReflect().Descriptor().FullName()), contract) {
		return err
	}
	proto.Reset(m)
	m.ProtoReflect().SetUnknown(unreadable)
	return nil
}

// checkReadable refuses a message that the codec could not decode.
func checkReadable(m proto.Message) error {
	if string(m.ProtoReflect().GetUnknown()) != string(unreadable) {
		return nil
	}
	return invalid("",
		"the message cannot be read: its strings must be UTF-8, and all of it protobuf as the call takes it")
}
