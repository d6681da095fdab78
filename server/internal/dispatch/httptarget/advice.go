package httptarget

import (
	"net"
	"net/netip"
	"strings"
)

// Refuses implements [dispatch.Refuser] for hosts that are IP addresses, and for localhost. What another name
// resolves to is not known before it is dialled.
func (t *Target) Refuses(address string) string {
	if t.guard == nil {
		return ""
	}
	host := address
	if name, _, err := net.SplitHostPort(address); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	addrs := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	if host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return ""
		}
		addrs = []netip.Addr{addr}
	}
	var refused *RefusedError
	for _, addr := range addrs {
		if refused = t.guard.refuses(addr); refused == nil {
			return ""
		}
	}
	return refused.Detail()
}
