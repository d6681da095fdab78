package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

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
	key    shownKey

	context     string // its name; empty: the current one, if it is wanted
	byFlag      bool   // the command line has named the context
	asked       bool   // only such a context is used
	namespaceOf string // the context
	fault       error  // of resolve
}

// shownKey is the API key that is shown to a node.
type shownKey struct {
	token, file string
	plain       bool // it may go to other machines in plain text
}

// options returns how the client shows the key.
func (k *shownKey) options() ([]client.Option, error) {
	var all []client.Option
	switch {
	case k.token != "" && k.file != "":
		return nil, usagef("--%s, --%s: give one of them", tokenFlag, tokenFileFlag)
	case k.file != "":
		f := &tokenFile{path: k.file}
		if _, err := f.token(context.Background()); err != nil {
			return nil, usagef("--%s: %v", tokenFileFlag, err)
		}
		all = append(all, client.WithTokenSource(f.token))
	case k.token != "":
		all = append(all, client.WithToken(k.token))
	default:
		return nil, nil
	}
	if k.plain {
		all = append(all, client.WithTokenInPlainText())
	}
	return all, nil
}

// The flags of the API key.
const (
	tokenFlag     = "token"
	tokenFileFlag = "token-file"
)

// The flags of TLS. The environment may set them.
const (
	caFlag         = "ca"
	certFlag       = "cert"
	keyFlag        = "key"
	serverNameFlag = "server-name"
)

// add adds the flags; server says what the address is for.
func (r *reach) add(flags *pflag.FlagSet, server string) {
	section(flags, sectionConnection, func(flags *pflag.FlagSet) { r.addAll(flags, server) })
}

func (r *reach) addAll(flags *pflag.FlagSet, server string) {
	flags.StringVar(&r.server, "server", defaultServer, server)
	flags.StringVar(&r.context, "context", "",
		"`name` of a context that says where the node is and how it is reached, in place of --server; environment CARILLON_CONTEXT, unless "+
			"--server is given; default the current one, unless --server or CARILLON_SERVER says where")
	r.addTLS(flags)
	r.addToken(flags)
}

// addTLS adds the flags of TLS.
func (r *reach) addTLS(flags *pflag.FlagSet) {
	flags.StringVar(&r.tls.CA, caFlag, "",
		"`file` of the certificates (PEM) that the node is verified against, read at the start; this flag, --cert, --key and --server-name "+
			"turn TLS on, and each may come from the environment, as CARILLON_CA; default those of this machine")
	flags.StringVar(&r.tls.Cert, certFlag, "",
		"`file` of a certificate (PEM) to show to the node; environment CARILLON_CERT")
	flags.StringVar(&r.tls.Key, keyFlag, "", "`file` of the private key of --cert; environment CARILLON_KEY")
	flags.StringVar(&r.tls.ServerName, serverNameFlag, "",
		"`name` that the node's certificate must have: of a host, or a SPIFFE id, spiffe://…, in which * is any one part; "+
			"environment CARILLON_SERVER_NAME; default the host of the address")
}

// addToken adds the flags of the API key.
func (r *reach) addToken(flags *pflag.FlagSet) {
	flags.StringVar(&r.key.file, tokenFileFlag, "",
		"`file` of an API key, or a token of the node's issuer, to show to the node; read again when it changes; environment CARILLON_TOKEN_FILE")
	flags.StringVar(&r.key.token, tokenFlag, "",
		"API `key` or token to show to the node; others on this machine may see it here, so rather give --token-file, or CARILLON_TOKEN")
	flags.BoolVar(&r.key.plain, "insecure-token", false,
		"send the API key to another machine although the connection is not encrypted")
}

// tlsFlags returns the flags of TLS, by name.
func (r *reach) tlsFlags() map[string]*string {
	return map[string]*string{caFlag: &r.tls.CA, certFlag: &r.tls.Cert, keyFlag: &r.tls.Key,
		serverNameFlag: &r.tls.ServerName}
}

// resolve sets what the command line does not: from the context that it names, then from the environment,
// then from the context that the environment names, or the current one. What is wrong with that dial returns.
func (r *reach) resolve(flags *pflag.FlagSet) {
	r.byFlag = flags.Changed("context") && r.context != "" // which a call before may have set
	whence := flags.Changed("server")
	switch {
	case r.byFlag && whence:
		r.fault = usagef("--server, --context: give one of them; a context says where the node is")
		return
	case r.byFlag:
		if r.fault = r.byContext(false); r.fault != nil {
			return
		}
	case !whence: // otherwise what a context says of TLS is about other nodes
		takeEnvironment(flags, map[string]*string{"server": &r.server})
		if !r.asked {
			takeEnvironment(flags, map[string]*string{"context": &r.context})
		}
		whence = os.Getenv(envName("server")) != ""
	}
	for name, into := range r.tlsFlags() {
		if *into == "" {
			takeEnvironment(flags, map[string]*string{name: into})
		}
	}
	if r.key.token == "" && r.key.file == "" {
		takeEnvironment(flags, map[string]*string{tokenFlag: &r.key.token, tokenFileFlag: &r.key.file})
	}
	if !r.byFlag && !r.asked {
		r.fault = r.byContext(whence)
	}
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
	if r.fault != nil {
		return nil, r.fault
	}
	opts := slices.Clone(r.more)
	shown, err := r.key.options()
	if err != nil {
		return nil, err
	}
	opts = append(opts, shown...)
	if r.proxy {
		opts = append(opts, client.WithProxyFromEnvironment())
	}
	if r.tls.Given() {
		over, err := r.credentials()
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.WithTransportCredentials(over))
	}
	return client.Dial(r.server, opts...)
}

// credentials are those of a connection to the node.
func (r *reach) credentials() (credentials.TransportCredentials, error) {
	if !r.tls.Given() {
		return insecure.NewCredentials(), nil
	}
	config, err := r.tls.Config(tlsNames)
	if err != nil {
		return nil, usagef("%s", err)
	}
	return credentials.NewTLS(config), nil
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
