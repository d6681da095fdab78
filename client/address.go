package client

import (
	"net"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/carillonhq/carillon"
)

// DefaultPort is a node's default port for gRPC.
const DefaultPort = "7070"

// target returns what gRPC dials for addr: host:port, a host, one of gRPC's own target URLs such as
// dns:///host:port, or several of the first two separated by commas, of which the first that answers is used.
// Each of several is verified by its own host, unless the credentials have a name: gRPC would have the name
// of an address win.
func target(addr, name string) (target string, options []grpc.DialOption, err error) {
	if addr == "" {
		return "", nil, carillon.Errorf(carillon.InvalidArgument, "addr", "it is empty; give host:port of a node")
	}
	parts := strings.Split(addr, ",")
	if err := checkAddresses(parts); err != nil {
		return "", nil, err
	}
	if len(parts) == 1 {
		return withPort(addr), nil, nil
	}
	list := manual.NewBuilderWithScheme("nodes")
	var state resolver.State
	for _, part := range parts {
		if part = strings.TrimSpace(part); part == "" || strings.Contains(part, "/") {
			return "", nil, carillon.Errorf(carillon.InvalidArgument, "addr",
				"%.64q: write several addresses as host:port,host:port", addr)
		}
		one := resolver.Address{Addr: withPort(part)}
		if name == "" {
			one.ServerName = one.Addr // the port is for :authority; TLS drops it
		}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{one}})
	}
	list.InitialState(state)
	return list.Scheme() + ":///" + "list", []grpc.DialOption{grpc.WithResolvers(list)}, nil
}

// checkAddresses refuses impossible addresses, with clearer errors than gRPC's.
func checkAddresses(parts []string) error {
	for _, part := range parts {
		part = strings.TrimSpace(part)
		switch {
		case strings.ContainsFunc(part, func(r rune) bool {
			return r == unicode.ReplacementChar || r == ' ' ||
				!unicode.IsPrint(r)
		}):
			return carillon.Errorf(carillon.InvalidArgument, "addr", "%.64q has a character that no address has", part)
		case strings.HasPrefix(part, "http://"), strings.HasPrefix(part, "https://"):
			return carillon.Errorf(carillon.InvalidArgument, "addr",
				"%.64q is a URL; give host:port of a node's gRPC address, which is port %s unless --grpc says otherwise",
				part, DefaultPort)
		}
		_, port, err := net.SplitHostPort(part)
		if n, number := strconv.Atoi(port); err == nil && number == nil && (n < 1 || n > 65535) {
			return carillon.Errorf(carillon.InvalidArgument, "addr", "%.64q: a port is a number from 1 to 65535", part)
		}
	}
	return nil
}

// Addresses returns the addresses that [Dial] would try for addr, as host:port; for one of gRPC's own target
// URLs, its end.
func Addresses(addr string) []string {
	var out []string
	for part := range strings.SplitSeq(addr, ",") {
		part = strings.TrimSpace(part)
		if part == "" || strings.HasPrefix(part, "unix:") {
			continue
		}
		out = append(out, withPort(part[strings.LastIndex(part, "/")+1:]))
	}
	return out
}

// withPort adds the default port to addr if it has none. A URL is left alone.
func withPort(addr string) string {
	if strings.Contains(addr, "/") || strings.HasPrefix(addr, "unix:") ||
		strings.HasPrefix(addr, "passthrough:") {
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
