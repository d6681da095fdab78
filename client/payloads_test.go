package client

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// short is the stream of a node that ends it after one message.
type short struct {
	grpc.ServerStreamingClient[pb.GetPayloadResponse]
	data []byte
}

func (s *short) Recv() (*pb.GetPayloadResponse, error) {
	if s.data == nil {
		return nil, io.EOF
	}
	m := &pb.GetPayloadResponse{Data: s.data}
	s.data = nil
	return m, nil
}

// TestAPayloadThatIsTooShort is none that has ended, however its reader looks for an end.
func TestAPayloadThatIsTooShort(t *testing.T) {
	_, err := io.ReadAll(&payloadReader{stream: &short{data: []byte("01234")}, left: 6})
	if !errors.Is(err, carillon.Unavailable) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("one byte is missing: %v", err)
	}
	if b, err := io.ReadAll(&payloadReader{stream: &short{data: []byte("01234")}, left: 5}); err != nil || len(b) != 5 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
