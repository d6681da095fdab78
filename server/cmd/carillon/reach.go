package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/clienttls"
)

// defaultServer is a node's default address.
const defaultServer = "127.0.0.1:7070"

// reach is where a node is and how it is reached. Every connection of a command to a node is made by its
// dial.
type reach struct {
	server string
	tls    clienttls.Options
	proxy  bool
	more   []client.Option // in place of tls
}

// The flags of TLS. The environment may set them.
const (
	caFlag         = "ca"
	certFlag       = "cert"
	keyFlag        = "key"
	serverNameFlag = "server-name"
)

// add adds the flags; server says what the address is for.
func (r *reach) add(flags *pflag.FlagSet, server string) {
	flags.StringVar(&r.server, "server", defaultServer, server)
	flags.StringVar(&r.tls.CA, caFlag, "",
		"`file` of the certificates (PEM) that the node is verified against, read at the start; this flag and the next three turn TLS on, and each "+
			"may come from the environment, as CARILLON_CA; default those of this machine")
	flags.StringVar(&r.tls.Cert, certFlag, "",
		"`file` of a certificate (PEM) to show to the node; environment CARILLON_CERT")
	flags.StringVar(&r.tls.Key, keyFlag, "", "`file` of its private key; environment CARILLON_KEY")
	flags.StringVar(&r.tls.ServerName, serverNameFlag, "",
		"`name` that the node's certificate must have: of a host, or a SPIFFE id, spiffe://…, in which * is any one part; "+
			"environment CARILLON_SERVER_NAME; default the host of the address")
}

// tlsFlags returns the flags of TLS, by name.
func (r *reach) tlsFlags() map[string]*string {
	return map[string]*string{caFlag: &r.tls.CA, certFlag: &r.tls.Cert, keyFlag: &r.tls.Key,
		serverNameFlag: &r.tls.ServerName}
}

// resolve sets from the environment what the command line does not.
func (r *reach) resolve(flags *pflag.FlagSet) {
	takeEnvironment(flags, map[string]*string{"server": &r.server})
	takeEnvironment(flags, r.tlsFlags())
}

// takeEnvironment sets from the environment what the flags have not set.
func takeEnvironment(flags *pflag.FlagSet, targets map[string]*string) {
	for name, target := range targets {
		if v := os.Getenv(envName(name)); v != "" && !flags.Changed(name) {
			*target = v
		}
	}
}

// tlsNames are what the flags are called in errors.
var tlsNames = clienttls.Names{CA: "--" + caFlag, Cert: "--" + certFlag, Key: "--" + keyFlag,
	ServerName: "--" + serverNameFlag}

// dial returns a client of the node.
func (r *reach) dial() (*client.Client, error) {
	opts := slices.Clone(r.more)
	if r.proxy {
		opts = append(opts, client.WithProxyFromEnvironment())
	}
	if r.tls.Given() {
		config, err := r.tls.Config(tlsNames)
		if err != nil {
			return nil, usagef("%s", err)
		}
		opts = append(opts, client.WithTransportCredentials(credentials.NewTLS(config)))
	}
	return client.Dial(r.server, opts...)
}

// unheard says why something listens and is not heard.
func (r *reach) unheard(ctx context.Context, addr string, e *carillon.Error) string {
	switch {
	case len(r.more) > 0:
		return fmt.Sprintf("%s does not answer: the node there must have a certificate of the same sentry, and --grpc-listen there "+
			"for the nodes of a shared store (%s)", addr, e.Message)
	case !r.tls.Given():
		if clienttls.SpeaksTLS(ctx, addr) {
			return fmt.Sprintf("the node at %s speaks TLS: give --%s, and --%s and --%s if it asks for a certificate (%s)", addr,
				caFlag, certFlag, keyFlag, e.Message)
		}
		return notGRPC(addr, e)
	}
	config, err := r.tls.Config(tlsNames)
	if err == nil {
		err = clienttls.Probe(ctx, config, addr)
	}
	switch {
	case err == nil:
		return notGRPC(addr, e)
	case errors.Is(err, clienttls.ErrNoTLS):
		return fmt.Sprintf("%s does not speak TLS: leave out --%s, --%s, --%s and --%s", addr, caFlag, certFlag, keyFlag, serverNameFlag)
	case errors.Is(err, clienttls.ErrRefused):
		return fmt.Sprintf("the node at %s does not accept this client: --%s and --%s must be of one that it lets in (%v)", addr,
			certFlag, keyFlag, err)
	}
	return fmt.Sprintf("the node at %s cannot be verified by --%s and --%s: %v", addr, caFlag, serverNameFlag, err)
}
