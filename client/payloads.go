package client

import (
	"context"
	"io"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// payloadPart is how many bytes of a payload a message has.
const payloadPart = 64 << 10

// PutPayload stores a payload as a stream; see [carillon.Payloads]. Repeating it is harmless.
func (c *Client) PutPayload(ctx context.Context, namespace string, r io.Reader) (carillon.PayloadRef, error) {
	ctx, cancel := context.WithCancel(wire.Outgoing(ctx))
	defer cancel()
	stream, err := c.payloads.PutPayload(ctx)
	if err != nil {
		return carillon.PayloadRef{}, failed(err, false)
	}
	m := &pb.PutPayloadRequest{Namespace: namespace}
	for {
		part := make([]byte, payloadPart) // gRPC may keep it
		n, read := wire.ReadPart(r, part)
		if read != nil && !wire.AtEnd(read) {
			return carillon.PayloadRef{}, read // and the stream is cancelled: nothing is stored
		}
		if m.Data = part[:n]; n > 0 || m.Namespace != "" {
			if err := stream.Send(m); err != nil {
				break // the answer says why
			}
		}
		if read != nil {
			break
		}
		m = &pb.PutPayloadRequest{}
	}
	stored, err := stream.CloseAndRecv()
	if err != nil {
		return carillon.PayloadRef{}, failed(err, false) // what is stored and not referred to counts for nothing
	}
	return wire.StoredFromProto(stored)
}

// GetPayload returns a payload as a stream; see [carillon.Payloads].
func (c *Client) GetPayload(ctx context.Context, namespace string,
	ref carillon.PayloadRef) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(wire.Outgoing(ctx))
	stream, err := c.payloads.GetPayload(ctx, &pb.GetPayloadRequest{Namespace: namespace, Payload: ref.String()})
	r := &payloadReader{stream: stream, end: cancel, left: ref.Size}
	if err == nil {
		err = r.more() // so that a refusal is told at once
	}
	if err != nil {
		cancel()
		return nil, failed(err, false)
	}
	return r, nil
}

// payloadReader reads a payload from a node.
type payloadReader struct {
	stream grpc.ServerStreamingClient[pb.GetPayloadResponse]
	end    context.CancelFunc
	rest   []byte // of the last message
	left   int64  // bytes that are still to come, those of rest included
}

// more reads the next message.
func (p *payloadReader) more() error {
	m, err := p.stream.Recv()
	p.rest = m.GetData()
	return err
}

// Read implements [io.Reader].
func (p *payloadReader) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		switch err := p.more(); {
		case wire.AtEnd(err) && p.left > 0:
			return 0, carillon.Errorf(carillon.Unavailable, "payload", "it ended %d bytes too early", p.left)
		case wire.AtEnd(err):
			return 0, io.EOF
		case err != nil:
			return 0, failed(err, false)
		}
	}
	n := copy(b, p.rest)
	p.rest, p.left = p.rest[n:], p.left-int64(n)
	return n, nil
}

// Close implements [io.Closer].
func (p *payloadReader) Close() error {
	p.end()
	return nil
}

// CollectPayloads removes payloads that are not used; see [carillon.Payloads].
func (c *Client) CollectPayloads(ctx context.Context) (carillon.PayloadCollection, error) {
	m, err := c.payloads.CollectPayloads(ctx, &pb.CollectPayloadsRequest{})
	return wire.CollectionFromProto(m), err
}
