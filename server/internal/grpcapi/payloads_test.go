package grpcapi

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// TestAPayloadThatBreaksOffDoesNotEndWell: a caller would take what came for all of it.
func TestAPayloadThatBreaksOffDoesNotEndWell(t *testing.T) {
	const size = payloadPart + 100
	ref := carillon.PayloadRef{Day: 20000, Size: size}
	for _, c := range []struct {
		has  int
		ends error
		well bool
	}{
		{size, io.EOF, true}, {size - 1, io.EOF, false}, {payloadPart, io.EOF, false}, {0, io.EOF, false},
		{size - 1, io.ErrUnexpectedEOF, false}, {payloadPart, fmt.Errorf("read: %w", io.EOF), false},
	} {
		from := io.MultiReader(bytes.NewReader(make([]byte, c.has)), iotest.ErrReader(c.ends))
		client := pb.NewPayloadServiceClient(serve(t, &stub{payload: from}, Options{}))
		stream, err := client.GetPayload(t.Context(), &pb.GetPayloadRequest{Payload: ref.String()})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for err == nil {
			var m *pb.GetPayloadResponse
			m, err = stream.Recv()
			n += len(m.GetData())
		}
		if wire.AtEnd(err) != c.well || c.well && n != size {
			t.Errorf("%d of %d bytes, then %v: %d came, then %v", c.has, size, c.ends, n, err)
		}
		if !c.well && wire.AtEnd(c.ends) && problemOf(t, err).Kind != carillon.Unavailable {
			t.Errorf("%v", err)
		}
	}
}

// TestACallerThatDoesNothing loses its stream, and frees what the node keeps for it.
func TestACallerThatDoesNothing(t *testing.T) {
	const size = 64 << 20
	freed := make(chan struct{})
	c := pb.NewPayloadServiceClient(serve(t, &stub{payload: &closing{io.LimitReader(zeros{}, size), freed}},
		Options{StallTimeout: 20 * time.Millisecond}))
	put, err := c.PutPayload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := put.Send(&pb.PutPayloadRequest{Data: []byte("begun")}); err != nil {
		t.Fatal(err)
	}
	if e := problemOf(t, put.RecvMsg(&pb.PutPayloadResponse{})); e.Kind != carillon.Canceled || e.Field != "payload" {
		t.Errorf("put: %v", e)
	}
	get, err := c.GetPayload(t.Context(), &pb.GetPayloadRequest{Payload: carillon.PayloadRef{Day: 20000, Size: size}.String()})
	if err != nil {
		t.Fatal(err)
	}
	<-freed // although nothing is taken
	for err == nil {
		_, err = get.Recv()
	}
	if e := problemOf(t, err); e.Kind != carillon.Unavailable || e.Field != "payload" {
		t.Errorf("get: %v", e)
	}
}

// closing tells that it is closed.
type closing struct {
	io.Reader
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed)
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
