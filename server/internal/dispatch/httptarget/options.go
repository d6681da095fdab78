package httptarget

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// Options configure HTTP targets.
type Options struct {
	// HostLimit is the most concurrent requests to a host of a namespace; default 128.
	HostLimit int
	// Allow lists the networks that may be dialled although they are not public (--allow-target); default
	// none.
	Allow []netip.Prefix
	// Secrets returns a namespace's current signing secrets, raw ([ParseSecret]); nil or none: requests are
	// not signed.
	Secrets func(namespace string) [][]byte
	// Named are the secrets that headers of jobs refer to. Nil: headers are sent as they are.
	Named Secrets
	// Payloads are those that deliveries refer to. Default: none can be read at present.
	Payloads dispatch.Payloads
	// TLS is the client's configuration; default the system's roots. The minimum is TLS 1.2 in any case.
	TLS *tls.Config
	// Resolver resolves names; default the system's.
	Resolver *net.Resolver
	// Dial replaces the dialler, and with it Allow and Resolver, by a simulation's network in memory.
	// Default: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now reads the wall clock; default time.Now.
	Now func() time.Time
	// Around, if not nil, is put around what makes requests, to follow them. It must send a request once.
	Around func(http.RoundTripper) http.RoundTripper
	// Enter, if not nil, is called on the goroutine of an attempt before its request. Attempts that begin at
	// the same instant get connections in no fixed order. A simulation lets each wait in Enter for a moment
	// of its own.
	Enter func(run *carillon.Run)
}

// Limits and defaults.
const (
	DefaultHostLimit = 128
	DefaultTimeout   = 30 * time.Second // of a delivery that has none

	MaxResponseRead   = 128 << 10 // of a body; if there is more, the connection is closed
	MaxResponseHeader = 16 << 10
	BodyTimeout       = 5 * time.Second // once the status has arrived, and within the attempt's timeout
	MaxRetryAfter     = 24 * time.Hour  // longer ones are cut to this
	MaxPause          = 5 * time.Minute // the longest pause of a host that one answer can cause

	connectTimeout = 10 * time.Second // also of a TLS handshake
	idleTimeout    = time.Minute      // of a connection
	maxIdle        = 4096             // connections in all

	keepAliveMargin = time.Second // a connection is not reused this close to the end of its Keep-Alive

	firstPause = time.Second
	lastPause  = 30 * time.Second
)
