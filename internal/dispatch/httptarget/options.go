package httptarget

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"github.com/carillonhq/carillon"
)

// Options configure HTTP targets.
type Options struct {
	// HostLimit is the most requests at once to a host of a namespace; default 128.
	HostLimit int
	// Allow lists the networks that may be dialled although they are not public (--allow-target); default none.
	Allow []netip.Prefix
	// Secrets are a namespace's current signing secrets, raw ([ParseSecret]); nil or none: requests are not signed.
	Secrets func(namespace string) [][]byte
	// TLS is the client's configuration; default the system's roots. TLS 1.2 is the least in any case.
	TLS *tls.Config
	// Resolver looks names up; default the system's.
	Resolver *net.Resolver
	// Dial replaces the dialler, and with it Allow and Resolver: of a simulation's network in memory. Default: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now reads the wall clock; default time.Now.
	Now func() time.Time
	// Enter is called, if not nil, on the goroutine of an attempt before its request. Attempts that begin at one instant
	// are given connections in no order. A simulation lets them wait in Enter, each for a moment of its own.
	Enter func(run *carillon.Run)
}

// Limits and defaults.
const (
	DefaultHostLimit = 128
	DefaultTimeout   = 30 * time.Second // of a delivery that has none

	MaxResponseRead   = 64 << 10 // of a body; the connection is closed if there is more
	MaxResponseHeader = 16 << 10
	BodyTimeout       = 5 * time.Second // once the status is here, and within the attempt's timeout
	MaxRetryAfter     = 24 * time.Hour  // longer ones count as this
	MaxPause          = 5 * time.Minute // most that one answer holds up a host

	connectTimeout = 10 * time.Second // also of a TLS handshake
	idleTimeout    = time.Minute      // of a connection
	maxIdle        = 4096             // connections in all

	keepAliveMargin = time.Second // before a target closes a connection by its Keep-Alive, it is not used again

	firstPause = time.Second
	lastPause  = 30 * time.Second
)
