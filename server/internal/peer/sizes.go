package peer

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
)

// sizeParts is how many times larger a request between nodes may be than a caller's: what a caller has said
// once for a thousand jobs is repeated for each, and generated names are added.
const sizeParts = 2

// Sizes returns options for a gRPC server that serves both callers and a [Server]. Callers' messages may have
// at most callers bytes. Messages between nodes may be larger, since what was accepted from a caller may be
// passed on.
func Sizes(callers int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(sizeParts * callers),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
			handler grpc.UnaryHandler) (any, error) {
			if !strings.HasPrefix(info.FullMethod, "/"+peerv1.PeerService_ServiceDesc.ServiceName+"/") {
				if err := fits(req, callers); err != nil {
					return nil, err
				}
			}
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo,
			handler grpc.StreamHandler) error {
			return handler(srv, sized{ss, callers})
		}),
	}
}

// sized is a caller's stream, with messages of limited size.
type sized struct {
	grpc.ServerStream
	most int
}

// RecvMsg implements [grpc.ServerStream].
func (s sized) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return fits(m, s.most)
}

func fits(message any, most int) error {
	if m, ok := message.(proto.Message); ok {
		if size := proto.Size(m); size > most {
			return carillon.Errorf(carillon.ResourceExhausted, "",
				"the message has %d bytes; the limit is %d", size, most)
		}
	}
	return nil
}
