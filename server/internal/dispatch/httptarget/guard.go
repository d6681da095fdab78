package httptarget

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// guard decides which addresses may be dialled. It checks after names are resolved, and checks the very
// address that is connected to, so no DNS answer can change it afterwards.
type guard struct {
	allow []netip.Prefix
}

// RefusedError reports an address that is neither public nor allowed.
type RefusedError struct {
	Addr netip.Addr
	Why  string
}

// Error says how to allow the address. It does not name it, since whoever puts jobs would learn what names
// within the operator's network resolve to.
func (e *RefusedError) Error() string {
	return "the target's address is refused: it is not a public one (an operator can allow it with --allow-target)"
}

// Detail is the error for a caller that gave the address itself, so it reveals nothing.
func (e *RefusedError) Detail() string {
	return fmt.Sprintf("address %s is refused: %s (an operator can allow it with --allow-target %s/%d)",
		e.Addr, e.Why, e.Addr, e.Addr.BitLen())
}

// control implements [net.Dialer.Control].
func (g guard) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q cannot be read: %w", address, err)
	}
	if refused := g.refuses(ap.Addr()); refused != nil {
		return refused
	}
	return nil
}

// refuses returns why addr may not be dialled; nil if it may.
func (g guard) refuses(addr netip.Addr) *RefusedError {
	addr = addr.Unmap().WithZone("")
	for _, p := range g.allow {
		if p.Contains(addr) {
			return nil
		}
	}
	for _, n := range notPublic {
		if n.prefix.Contains(addr) {
			return &RefusedError{addr, n.why}
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return &RefusedError{addr, "not a public network"}
	}
	return nil
}

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

// globalUnicast is all of IPv6 that has been allocated.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// notPublic lists what the IANA registries of special-purpose addresses call not globally reachable, the
// transition networks that could hide an IPv4 address, and metadata services on public addresses.
var notPublic = []struct {
	prefix netip.Prefix
	why    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata service"}, // Azure's
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},         // most metadata services
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112"},
	{netip.MustParsePrefix("192.52.193.0/24"), "multicast tunnels"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "AS112"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible"},
	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "NAT64"},
	{netip.MustParsePrefix("100::/64"), "discard"},
	{netip.MustParsePrefix("2001::/32"), "Teredo"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "AS112"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}
