package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
)

// WithToken shows an API key, or a token of an issuer whose tokens the nodes take, with every call and
// session. Without encryption [Dial] refuses to send it to another machine, see [WithTokenInPlainText].
// Default: none is shown.
func WithToken(token string) Option {
	return func(o *options) {
		o.token = func(context.Context) (string, error) { return token, nil }
		o.fixed = &token
	}
}

// WithTokenSource is WithToken for tokens that expire: source is called before every call and session, by
// many goroutines, and keeps a token itself for as long as it is good. While it fails calls are Unavailable.
// So is a session that is refused, if the source has another token by then: a worker tries again with that.
func WithTokenSource(source func(ctx context.Context) (token string, err error)) Option {
	return func(o *options) { o.token, o.fixed = source, nil }
}

// WithTokenInPlainText lets a token go to other machines without encryption, where whoever listens can take
// it: for networks that are encrypted by themselves.
func WithTokenInPlainText() Option { return func(o *options) { o.plainToken = true } }

// bearer shows a token. It has no String that would show it elsewhere.
type bearer struct {
	token func(context.Context) (string, error)
}

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil { // of another kind it would be taken for a refusal
		return nil, status.Errorf(codes.Unavailable, "no token can be had to show to the node: %v", err)
	}
	if err := checkToken(token); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if shown, ok := ctx.Value(shownKey{}).(*atomic.Pointer[string]); ok {
		shown.Store(&token)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// shownKey is that of an atomic.Pointer in the context of a call, for the token that was shown.
type shownKey struct{}

// renewed returns the error of a session that was refused: Unavailable if there is another token by now than
// the one that was shown.
func (c *Client) renewed(ctx context.Context, shown *string, err error) error {
	if c.token == nil || shown == nil || !errors.Is(err, carillon.Unauthenticated) {
		return err
	}
	if token, failed := c.token(ctx); failed != nil || token == *shown {
		return err
	}
	return carillon.Errorf(carillon.Unavailable, "", "the token was refused, and has been renewed meanwhile: %w", err)
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials]: Dial has checked it.
func (bearer) RequireTransportSecurity() bool { return false }

// checkToken refuses what is no token.
func checkToken(token string) error {
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return carillon.Errorf(carillon.InvalidArgument, "token",
			"it is empty, or has a space or another character that no token has; an API key begins with ck_")
	}
	return nil
}

// checkToken refuses a token that is none, or that others could read on its way.
func (o *options) checkToken(addr string) error {
	if o.token == nil {
		return nil
	}
	if o.fixed != nil {
		if err := checkToken(*o.fixed); err != nil {
			return err
		}
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
