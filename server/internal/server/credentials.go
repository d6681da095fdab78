package server

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
)

// Credentials are how the nodes of a store know each other at the gRPC listener, which then is for nobody
// else: it may be reachable from other machines without [Config.Insecure].
type Credentials struct {
	// Server are options of the listener, and Dial those of connections to other nodes.
	Server []grpc.ServerOption
	Dial   []grpc.DialOption
	// Ready returns nil once the node can prove who it is. Until then it does not join the cluster: the
	// others could not reach it. Default: it always can.
	Ready func() error
}

// errPlain refuses credentials that would be none.
var errPlain = errors.New("credentials: options of the listener or of connections are missing: it would be plain text")

// complete refuses credentials by which everybody would be admitted.
func (c *Credentials) complete() error {
	if c != nil && (len(c.Server) == 0 || len(c.Dial) == 0) {
		return errPlain
	}
	return nil
}

// errNoCredentials reports that a node cannot prove yet who it is.
var errNoCredentials = errors.New("the node cannot be known to the others yet")

// ready returns an errNoCredentials while the node cannot prove who it is.
func (c *Credentials) ready() error {
	if c == nil || c.Ready == nil {
		return nil
	}
	if err := c.Ready(); err != nil {
		return fmt.Errorf("%w: %w", errNoCredentials, err)
	}
	return nil
}

// server returns the options of the listener.
func (c *Credentials) server() []grpc.ServerOption {
	if c == nil {
		return nil
	}
	return c.Server
}

// dial returns the options of connections to other nodes.
func (c *Credentials) dial() []grpc.DialOption {
	if c == nil {
		return nil
	}
	return c.Dial
}

// setting says for the other nodes whether there are any: those with and those without cannot talk.
func (c *Credentials) setting() string { return strconv.FormatBool(c != nil) }
