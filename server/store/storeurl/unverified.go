package storeurl

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
)

// Unverified returns the host of the first of the addresses that is beyond this machine, if connections with
// the configuration do not verify who is there: nil is plain text. Otherwise it returns "". Addresses are
// host:port, hosts, or paths of sockets. Names other than localhost are not resolved.
func Unverified(config *tls.Config, addresses ...string) string {
	if config != nil && (!config.InsecureSkipVerify || config.VerifyPeerCertificate != nil ||
		config.VerifyConnection != nil) {
		return ""
	}
	for _, a := range addresses {
		host, _, err := net.SplitHostPort(a)
		if err != nil {
			host = a
		}
		ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && !strings.HasPrefix(host, "/") && (err != nil || !ip.Unmap().IsLoopback()) {
			return host
		}
	}
	return ""
}
