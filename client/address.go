package client

import (
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/carillonhq/carillon"
)

// DefaultPort is where a node takes gRPC if nobody says otherwise.
const DefaultPort = "7070"

// target is what gRPC dials for addr: host:port, a host, one of gRPC's own target URLs such as dns:///host:port, or several of the
// first two with commas between, of which the first that answers is used.
func target(addr string) (target string, options []grpc.DialOption, err error) {
	if addr == "" {
		return "", nil, carillon.Errorf(carillon.InvalidArgument, "addr", "it is empty; give host:port of a node")
	}
	parts := strings.Split(addr, ",")
	if len(parts) == 1 {
		return withPort(addr), nil, nil
	}
	list := manual.NewBuilderWithScheme("nodes")
	var state resolver.State
	for _, part := range parts {
		if part = strings.TrimSpace(part); part == "" || strings.Contains(part, "/") {
			return "", nil, carillon.Errorf(carillon.InvalidArgument, "addr", "%q: write several addresses as host:port,host:port", addr)
		}
		one := resolver.Address{Addr: withPort(part)}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{one}})
	}
	list.InitialState(state)
	return list.Scheme() + ":///" + "list", []grpc.DialOption{grpc.WithResolvers(list)}, nil
}

// withPort is addr with the default port if it has none. A URL is left alone.
func withPort(addr string) string {
	if strings.Contains(addr, "/") || strings.HasPrefix(addr, "unix:") || strings.HasPrefix(addr, "passthrough:") {
		return addr
	}
	if host, port, err := net.SplitHostPort(addr); err == nil {
		if port == "" {
			return net.JoinHostPort(host, DefaultPort)
		}
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), DefaultPort)
}
