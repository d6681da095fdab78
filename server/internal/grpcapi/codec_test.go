package grpcapi

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// bare is a codec of messages that are bytes.
type bare struct{}

func (bare) Name() string { return "proto" }

func (bare) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bare) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = bare{}

// unreadables are messages that cannot be decoded: of every call here field 1 is a string, or a message that
// has one.
func unreadables() map[string][]byte {
	text := func(field protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), s)
	}
	return map[string][]byte{
		"not UTF-8":        text(1, "a\xff"),
		"half of a pair":   text(1, "\xed\xa0\x80"),
		"no protobuf":      {0xff, 0xff},
		"cut":              text(1, "abc")[:3],
		"field number 0":   {0x00, 0x01},
		"the codec's mark": unreadable,
	}
}

// exchange sends one message to a call of any kind and returns how the call ends.
func exchange(ctx context.Context, conn *grpc.ClientConn, method string, m []byte) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		grpc.ForceCodecV2(bare{}))
	if err != nil {
		return err
	}
	_ = stream.SendMsg(m) // an error comes with the answer
	_ = stream.CloseSend()
	var reply []byte
	return stream.RecvMsg(&reply)
}

// TestWhatCannotBeReadIsTheCallersFault: in a unary call, in one of many messages and in a worker's stream,
// and without a line of the log.
func TestWhatCannotBeReadIsTheCallersFault(t *testing.T) {
	var log bytes.Buffer
	conn := serve(t, &stub{}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for name, m := range unreadables() {
		for _, call := range []string{"GetJob", "ListJobs", "PutJob", "PutJobs", "Work"} {
			err := exchange(t.Context(), conn, "/carillon.v1.SchedulerService/"+call, m)
			if e := problemOf(t, err); e.Kind != carillon.InvalidArgument || e.Unknown {
				t.Errorf("%s, %s: got %v, want invalid_argument", call, name, err)
			}
		}
		if err := exchange(t.Context(), conn, "/grpc.health.v1.Health/Check",
			m); status.Code(err) == codes.OK && name != "the codec's mark" {
			t.Errorf("health, %s: it is answered", name)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log tells of it: %s", log.String())
	}
}

// decodeWith reads a request with a codec.
func decodeWith(t *testing.T, c encoding.CodecV2, data mem.BufferSlice) {
	t.Helper()
	if err := c.Unmarshal(data, &pb.GetJobRequest{}); err != nil {
		t.Fatal(err)
	}
}

// TestTheCodecCostsNothing: what can be read is read as gRPC reads it.
func TestTheCodecCostsNothing(t *testing.T) {
	own, ours := encoding.GetCodecV2("proto"), encoding.CodecV2(newCodec())
	if ours.Name() != own.Name() {
		t.Errorf("its name is %q, which is not that of gRPC's own", ours.Name())
	}
	for _, m := range [][]byte{nil, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType),
		"grün")} {
		data := mem.BufferSlice{mem.SliceBuffer(m)}
		least := testing.AllocsPerRun(100, func() { decodeWith(t, own, data) })
		if n := testing.AllocsPerRun(100, func() { decodeWith(t, ours, data) }); n > least {
			t.Errorf("%d bytes: %v allocations, gRPC's own codec has %v", len(m), n, least)
		}
	}
}
