package grpcapi

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Observer is told how calls ended, for metrics. Its methods are called from many goroutines and must not
// wait. Methods are those that the services have, codes are the names of gRPC's.
type Observer interface {
	// Called: a call has ended.
	Called(api, method, code string, took time.Duration)
	// Streamed: a stream has ended.
	Streamed(api, method, code string)
}

// apis are the APIs that are observed, by how the full names of their services begin. Calls of other nodes,
// health and reflection are no API of the node's users.
var apis = []struct{ prefix, name string }{
	{"/" + contract, "grpc"},
	{"/dapr.proto.scheduler.v1.", "dapr"},
}

// observe tells of a call that has ended with err, which is nil or a status.
func (o *Options) observe(fullMethod string, err error, tell func(o Observer, api, method, code string)) {
	if o.Observer == nil {
		return
	}
	for _, api := range apis {
		if strings.HasPrefix(fullMethod, api.prefix) {
			tell(o.Observer, api.name, fullMethod[strings.LastIndexByte(fullMethod, '/')+1:], codeOf(err))
			return
		}
	}
}

// codeOf names the code of a status. gRPC's own codes are the only ones, so that their number is bounded.
func codeOf(err error) string {
	code := status.Code(err)
	if code > codes.Unauthenticated {
		code = codes.Unknown
	}
	return code.String()
}
