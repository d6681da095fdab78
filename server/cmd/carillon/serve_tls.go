package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/nodetls"
	"github.com/carillonhq/carillon/server/internal/server"
)

// nodeTLS holds the flags of a node's TLS.
type nodeTLS struct {
	files  nodetls.Files
	spiffe string
	end    func() // ends what watches for new certificates; there is always one after credentials
}

// The flags of a node's TLS.
const (
	tlsCertFlag     = "tls-cert"
	tlsKeyFlag      = "tls-key"
	tlsClientCAFlag = "tls-client-ca"
	tlsPeerCAFlag   = "tls-peer-ca"
	tlsPeerNameFlag = "tls-peer-name"
	tlsSPIFFEFlag   = "tls-spiffe"
)

// nodeTLSNames are what the flags are called in errors.
var nodeTLSNames = nodetls.Names{Cert: "--" + tlsCertFlag, Key: "--" + tlsKeyFlag,
	ClientCA: "--" + tlsClientCAFlag, PeerCA: "--" + tlsPeerCAFlag, PeerName: "--" + tlsPeerNameFlag}

func (t *nodeTLS) add(flags *pflag.FlagSet) {
	f := &t.files
	flags.StringVar(&f.Cert, tlsCertFlag, "",
		"`file` of this node's certificate and those that lead up to an authority (PEM): gRPC and HTTP then use TLS; this file and the next "+
			"three are read again when they change")
	flags.StringVar(&f.Key, tlsKeyFlag, "", "`file` of the private key of the certificate (PEM)")
	flags.StringVar(&f.ClientCA, tlsClientCAFlag, "",
		"`file` of the certificates that clients are verified against (PEM): each must show one; probes of HTTP need none")
	flags.StringVar(&f.Peers.CA, tlsPeerCAFlag, "",
		"`file` of the certificates that the nodes of a store verify each other against (PEM); default as --tls-client-ca")
	flags.StringVar(&f.Peers.Name, tlsPeerNameFlag, "",
		"`name` that the certificates of all nodes of a store have: of a host, or a SPIFFE id, spiffe://…, in which * is any one part; default "+
			"the host of each node's address, with --tls-spiffe this node's id")
	flags.StringVar(&t.spiffe, tlsSPIFFEFlag, "",
		"`address` of a SPIFFE Workload API, such as unix:///run/spire/agent.sock, in place of files: clients and nodes must show identities "+
			"that it has trust anchors for")
}

// identityWait is how long a node waits for its first identity.
const identityWait = 30 * time.Second

// credentials returns what the flags say; nil: no TLS. shared: other nodes may share the store.
func (t *nodeTLS) credentials(ctx context.Context, shared bool, log *slog.Logger) (
	*server.Credentials, error) {
	t.end = func() {}
	if t.spiffe == "" && t.files == (nodetls.Files{}) {
		return nil, nil
	}
	if err := t.check(shared); err != nil {
		return nil, err
	}
	source, err := t.source(ctx, shared, log)
	if err != nil {
		return nil, err
	}
	t.end = source.Close
	return &server.Credentials{Server: source.GRPC(), Dial: source.Dial(), Clients: &server.Clients{
		HTTP: source.HTTP(), Anyone: source.Anyone(), Client: source.Client, Node: source.Node,
		Reachable: source.Reachable, IDsOnly: t.spiffe != ""}}, nil
}

// source reads the files, or asks the Workload API.
func (t *nodeTLS) source(ctx context.Context, shared bool, log *slog.Logger) (*nodetls.Source, error) {
	if t.spiffe == "" {
		f := t.files
		f.Log = log
		if shared {
			f.Peers.CA = cmp.Or(f.Peers.CA, f.ClientCA)
		}
		source, err := nodetls.FromFiles(f, nodeTLSNames)
		if err != nil {
			return nil, usagef("%s", err)
		}
		return source, nil
	}
	w := nodetls.Workload{Address: t.spiffe, PeerName: t.files.Peers.Name, Log: log}
	if err := w.Validate(nodeTLSNames, "--"+tlsSPIFFEFlag); err != nil {
		return nil, usagef("%s", err)
	}
	ctx, cancel := context.WithTimeout(ctx, identityWait)
	defer cancel()
	source, err := nodetls.FromWorkloadAPI(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", tlsSPIFFEFlag, err)
	}
	return source, nil
}

// check refuses flags that do not go together, or would have no effect, all at once.
func (t *nodeTLS) check(shared bool) error {
	f := &t.files
	var faults []string
	wrong := func(flag, why string) { faults = append(faults, "--"+flag+": "+why) }
	for flag, value := range map[string]string{tlsCertFlag: f.Cert, tlsKeyFlag: f.Key,
		tlsClientCAFlag: f.ClientCA, tlsPeerCAFlag: f.Peers.CA} {
		if value != "" && t.spiffe != "" {
			wrong(flag, "the Workload API has certificates and trust anchors; leave it out, or --"+tlsSPIFFEFlag)
		}
	}
	if t.spiffe == "" {
		if f.Cert == "" {
			wrong(tlsCertFlag, "the other flags of TLS need this node's certificate; give its file")
		}
		if f.Key == "" {
			wrong(tlsKeyFlag, "the private key of the certificate is needed too; give its file")
		}
		if shared && f.Peers.CA == "" && f.ClientCA == "" {
			wrong(tlsPeerCAFlag, "the nodes of a store know each other by certificates: give the file of the authority that signs those")
		}
	}
	if !shared {
		for flag, value := range map[string]string{tlsPeerCAFlag: f.Peers.CA, tlsPeerNameFlag: f.Peers.Name} {
			if value != "" {
				wrong(flag, "no other node can share this store; leave it out")
			}
		}
	}
	return joinFaults(faults)
}
