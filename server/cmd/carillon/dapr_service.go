package main

import (
	"net"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
	"github.com/carillonhq/carillon/server/internal/server"
)

// daprAPI returns Dapr's service for a node, with metrics under Dapr's names.
func daprAPI(o daprapi.Options) server.API {
	return func(n *server.Node, r grpc.ServiceRegistrar) (stop func()) {
		counted := o
		counted.Metrics = daprmetrics.New(n.Metrics(), n.Hub().Gates)
		return daprapi.Serve(n, r, counted)
	}
}

// advertised returns the address that sidecars are told; empty: see [server.Config]. DAPR_HOST_IP tells
// Dapr's programs which of their addresses others can reach.
func (f *daprFlags) advertised() string {
	ip := os.Getenv("DAPR_HOST_IP")
	if f.broadcast != "" || ip == "" || f.port == 0 || server.OnLoopback(strings.Trim(f.listen, "[]")) {
		return f.broadcast
	}
	return net.JoinHostPort(ip, strconv.Itoa(f.port))
}
