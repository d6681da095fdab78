package client

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"github.com/carillonhq/carillon"
)

// WithToken shows an API key with every call and session. Without encryption [Dial] refuses to send it to
// another machine, see [WithTokenInPlainText]. Default: none is shown.
func WithToken(token string) Option { return func(o *options) { o.token = &token } }

// WithTokenInPlainText lets a token go to other machines without encryption, where whoever listens can take
// it: for networks that are encrypted by themselves.
func WithTokenInPlainText() Option { return func(o *options) { o.plainToken = true } }

// bearer shows a token. It has no String that would show it elsewhere.
type bearer struct{ token string }

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials]: Dial has checked it.
func (bearer) RequireTransportSecurity() bool { return false }

// checkToken refuses a token that is none, or that others could read on its way.
func (o *options) checkToken(addr string) error {
	if o.token == nil {
		return nil
	}
	if *o.token == "" || strings.ContainsFunc(*o.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return carillon.Errorf(carillon.InvalidArgument, "token",
			"it is empty, or has a space or another character that no API key has; it begins with ck_")
	}
	if o.plainToken || o.credentials == nil || o.credentials.Info().SecurityProtocol != "insecure" {
		return nil
	}
	for _, a := range Addresses(addr) {
		host, _, err := net.SplitHostPort(a)
		ip, bad := netip.ParseAddr(host)
		if err == nil && (host == "localhost" || bad == nil && ip.Unmap().IsLoopback()) {
			continue
		}
		return carillon.Errorf(carillon.InvalidArgument, "token",
			"%.64q is another machine, and the connection is not encrypted: whoever listens could take the token; use TLS", a)
	}
	return nil
}
