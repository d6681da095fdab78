package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/peer"
)

// What nodes say to each other crosses the simulation as it crosses a network: in the messages of package
// peer, as bytes. Only the transport is another: no HTTP/2, whose goroutines would take their turns in no
// order. So what is lost in a message is lost to the invariants too.

// call is a request on its way, and where its answer goes.
type call struct {
	method  string // without its service
	request []byte
	headers metadata.MD
	timeout time.Duration // what its caller has left; 0 = it has no deadline
	done    chan answer
	from    string // tells it from others that come at the same moment
}

// answer is what comes back: a message, or an error as a status.
type answer struct {
	message []byte
	failure []byte // of a status; nil = it is an answer
	broken  error  // of the harness
}

// encoding gives the same bytes for the same message: what a call meets on its way hangs on them.
var encoding = proto.MarshalOptions{Deterministic: true}

// newCall writes a request down.
func newCall(ctx context.Context, method string, args any) (*call, error) {
	request, err := encoding.Marshal(args.(proto.Message))
	if err != nil {
		return nil, fmt.Errorf("sim: the request of %s: %w", method, err)
	}
	c := &call{method: path.Base(method), request: request, done: make(chan answer, 1)}
	c.headers, _ = metadata.FromOutgoingContext(ctx) // none is none
	if at, ok := ctx.Deadline(); ok {
		c.timeout = max(time.Until(at), 1)
	}
	return c, nil
}

// hash is what a call's luck hangs on, beside the moment.
func (c *call) hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.method)) // it takes everything
	_, _ = h.Write(c.request)
	return h.Sum64()
}

// do does the call as gRPC's server would.
func (c *call) do(s *peer.Server) answer {
	ctx := calling(metadata.NewIncomingContext(context.Background(), c.headers), c.from)
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	for _, m := range peerv1.PeerService_ServiceDesc.Methods {
		if m.MethodName == c.method {
			return answered(m.Handler(s, ctx,
				func(into any) error { return proto.Unmarshal(c.request, into.(proto.Message)) }, nil))
		}
	}
	return answer{broken: fmt.Errorf("sim: there is no method %q", c.method)}
}

// answered writes an answer down.
func answered(reply any, err error) (a answer) {
	if err != nil {
		a.failure, a.broken = encoding.Marshal(status.Convert(grpcapi.ToStatus(err)).Proto())
		return a
	}
	a.message, a.broken = encoding.Marshal(reply.(proto.Message))
	return a
}

// into reads the answer.
func (a answer) into(reply any) error {
	switch {
	case a.broken != nil:
		return a.broken
	case a.failure == nil:
		return proto.Unmarshal(a.message, reply.(proto.Message))
	}
	s := status.New(0, "").Proto()
	if err := proto.Unmarshal(a.failure, s); err != nil {
		return err
	}
	return status.FromProto(s).Err()
}

// serve is the life as other nodes see it.
func (l *life) serve() *peer.Server {
	return peer.NewServer(peer.Served{Services: l.engine, Control: l.member,
		Partitions: l.store.Meta().Partitions, Secret: peer.Secret(macKey()), Now: l.member.StoreNow})
}

var _ grpc.ClientConnInterface = (*link)(nil)
