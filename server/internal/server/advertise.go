package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// self returns the node as other nodes see it: its name and its addresses.
func (s *Server) self() carillon.Node {
	c := s.config
	sidecars := s.SidecarsAddr()
	if sidecars == "" && len(c.APIs) > 0 {
		sidecars = s.GRPCAddr()
	}
	if sidecars = c.reachable(sidecars, ""); isAny(sidecars) {
		sidecars = "" // each sidecar learns the address at which it reached the node
	}
	_, port := splitAdvertised(c.Advertise)
	return carillon.Node{
		ID:       c.Name,
		Address:  c.reachable(s.GRPCAddr(), port),
		HTTP:     c.reachable(s.HTTPAddr(), ""),
		Sidecars: cmp.Or(c.AdvertiseSidecars, sidecars),
	}
}

// reachable returns the address at which others reach a listener; port, if not empty, replaces the
// listener's.
func (c Config) reachable(listener, port string) string {
	host, at, err := net.SplitHostPort(listener)
	if err != nil {
		return "" // no such listener
	}
	switch advertised, _ := splitAdvertised(c.Advertise); {
	case advertised != "":
		host = advertised
	case isAny(listener) && isShared(c.Store):
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, cmp.Or(port, at))
}

// isAny reports whether an address stands for all addresses of this machine.
func isAny(address string) bool {
	ip, err := netip.ParseAddr(strings.Trim(hostOf(address), "[]"))
	return err == nil && ip.IsUnspecified()
}

// splitAdvertised cuts host:port, or a host alone. An IPv6 address alone need not be in brackets.
func splitAdvertised(text string) (host, port string) {
	if host, port, err := net.SplitHostPort(text); err == nil {
		return host, port
	}
	return strings.Trim(text, "[]"), ""
}

// validateCluster checks the settings that concern other nodes of the store.
func (c Config) validateCluster() error {
	if isShared(c.Store) && c.GRPC == None {
		return fmt.Errorf("grpc: there is none, and the nodes of a store talk to each other there: give an address that the others reach")
	}
	host, port := splitAdvertised(c.Advertise)
	_, notIP := netip.ParseAddr(host)
	switch {
	case c.Advertise == "":
		return nil
	case host == "" || strings.ContainsAny(host, "/ ") || strings.Contains(host, ":") && notIP != nil:
		return fmt.Errorf("advertise: %q is not a host, or host:port, such as node-1.example or 10.0.0.7:7070",
			c.Advertise)
	case isAny(host):
		return fmt.Errorf("advertise: %s is no address at which others reach this machine", c.Advertise)
	case port != "" && !isPort(port):
		return fmt.Errorf("advertise: %q is not a port", port)
	case !c.Insecure && !c.Credentials.known() && !c.keyed() && !OnLoopback(host):
		return fmt.Errorf("advertise: %s is reached from other machines, and nobody is authenticated yet: say insecure if the network may do "+
			"everything", c.Advertise)
	}
	return nil
}

// Bounds on a member's settings.
const (
	maxName     = 253 // bytes, as for a host's name
	minLeaseTTL = time.Second
	maxLeaseTTL = 5 * time.Minute
)

// validateMember checks the settings of a node as a member of its cluster.
func (c Config) validateMember() error {
	var faults []error
	allowed := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-._", r)
	}
	if len(c.Name) > maxName || strings.ContainsFunc(c.Name, func(r rune) bool { return !allowed(r) }) {
		faults = append(faults, fmt.Errorf("node_name: %q is not at most %d letters, digits, hyphens, dots and underscores", c.Name, maxName))
	}
	switch {
	case c.LeaseTTL == 0:
	case !isShared(c.Store):
		faults = append(faults, fmt.Errorf("lease_ttl: only nodes that share a store have leases that others wait for; leave it out"))
	case c.LeaseTTL < minLeaseTTL || c.LeaseTTL > maxLeaseTTL:
		faults = append(faults, fmt.Errorf("lease_ttl: %v is not between %v and %v", c.LeaseTTL,
			minLeaseTTL, maxLeaseTTL))
	}
	return errors.Join(faults...)
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
