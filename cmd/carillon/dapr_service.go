package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon/internal/server"
)

// daprService puts Dapr's service on a listener of a node.
type daprService struct {
	override  string                                                   // what sidecars are told; empty: the listener's address
	authorize func(ctx context.Context, namespace, appID string) error // nil: everybody may do everything
	log       *slog.Logger

	told atomic.Pointer[string] // where sidecars are to connect
}

// face is the service for a node.
func (d *daprService) face(n *server.Node, r grpc.ServiceRegistrar) (stop func()) {
	return nil
}

// hosts is what WatchHosts says.
func (d *daprService) hosts() []string {
	if told := d.told.Load(); told != nil {
		return []string{*told}
	}
	return nil
}

// advertise settles what sidecars are told; at is the address of the listener.
func (d *daprService) advertise(at string) error {
	told := d.override
	if told == "" {
		var err error
		if told, err = reachable(at, hostAddress); err != nil {
			return err
		}
	}
	d.told.Store(&told)
	return nil
}

// reachable is an address at which a listener can be reached: its own, unless it listens at all addresses of this machine;
// then that of the host.
func reachable(at string, host func() (string, error)) (string, error) {
	own, port, err := net.SplitHostPort(at)
	if err != nil {
		return "", err
	}
	if ip, err := netip.ParseAddr(own); err == nil && !ip.IsUnspecified() {
		return at, nil
	}
	name, err := host()
	if err != nil {
		return "", fmt.Errorf("what are sidecars to be told? The listener is at %s, and %w: say the address that they can reach", at, err)
	}
	return net.JoinHostPort(name, port), nil
}

// hostAddress is the address of this machine as Dapr's programs choose it: DAPR_HOST_IP, or that which packets to elsewhere
// come from. None is sent. Without a route it is any address that is not for this machine only.
func hostAddress() (string, error) {
	if ip := os.Getenv("DAPR_HOST_IP"); ip != "" {
		return ip, nil
	}
	for _, elsewhere := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} { // addresses that documentation has for examples
		if conn, err := net.Dial("udp", elsewhere); err == nil {
			local, ok := conn.LocalAddr().(*net.UDPAddr)
			_ = conn.Close() // nothing was sent
			if ok {
				return local.IP.String(), nil
			}
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addresses {
		if own, ok := a.(*net.IPNet); ok && own.IP.IsGlobalUnicast() {
			return own.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address but its own loopback")
}
