package wire

import (
	"io"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// payloadText is a reference as the API writes it; empty is none.
func payloadText(r *carillon.PayloadRef) string {
	if r == nil {
		return ""
	}
	return r.String()
}

// payloadMessage is a message with a payload.
type payloadMessage interface {
	GetData() []byte
	GetPayload() string
	GetContentType() string
}

// data is the payload of a message, or where it is.
func (f *first) data(m payloadMessage) carillon.Data {
	d := carillon.Bytes(m.GetData(), m.GetContentType())
	if text := m.GetPayload(); text != "" {
		ref, err := carillon.ParsePayloadRef(text)
		f.keep(err)
		d.Ref = &ref
	}
	return d
}

// StoredToProto is the outcome of a put of a payload as a message.
func StoredToProto(r carillon.PayloadRef) *pb.PutPayloadResponse {
	return &pb.PutPayloadResponse{Payload: r.String(), Size: uint64(r.Size)}
}

// StoredFromProto is the message as the outcome of a put of a payload.
func StoredFromProto(m *pb.PutPayloadResponse) (carillon.PayloadRef, error) {
	return carillon.ParsePayloadRef(m.GetPayload())
}

// CollectionToProto is the outcome of a collection as a message.
func CollectionToProto(c carillon.PayloadCollection) *pb.CollectPayloadsResponse {
	return &pb.CollectPayloadsResponse{Examined: c.Examined, Removed: c.Removed, Bytes: c.Bytes}
}

// CollectionFromProto is the message as the outcome of a collection.
func CollectionFromProto(m *pb.CollectPayloadsResponse) carillon.PayloadCollection {
	return carillon.PayloadCollection{Examined: m.GetExamined(), Removed: m.GetRemoved(), Bytes: m.GetBytes()}
}

// ReadPart fills b from r, and returns less only with the error that ended it. Unlike [io.ReadFull] it leaves
// that as it is: [io.ErrUnexpectedEOF] is the error of a source that broke off, and only [io.EOF] its end.
func ReadPart(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = r.Read(b[n:])
		n += more
	}
	return n, err
}

// AtEnd reports whether an error of a reader is its end. An error that wraps [io.EOF] is none: a connection
// that broke off has such errors.
func AtEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // see above
}
