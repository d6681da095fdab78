package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/daprtls"
)

// sentryFlags are the flags of Dapr's scheduler about its identity, which sentry signs.
type sentryFlags struct {
	tls    bool
	sentry daprtls.Sentry
	mode   choice
}

// newSentryFlags returns the flags with the words that they accept.
func newSentryFlags() sentryFlags {
	return sentryFlags{mode: choice{words: []string{"standalone", daprMode}}}
}

// add declares the flags that a command has in the same words as Dapr's scheduler; enabled says what TLS is
// for.
func (s *sentryFlags) add(flags *pflag.FlagSet, enabled string) {
	flags.BoolVar(&s.tls, "tls-enabled", false, enabled)
	c := &s.sentry
	flags.StringVar(&c.TrustDomain, "trust-domain", daprtls.DefaultTrustDomain,
		"trust `domain` of Dapr's control plane")
	flags.StringVar(&c.TrustAnchorsFile, "trust-anchors-file", "/var/run/secrets/dapr.io/tls/ca.crt",
		"`file` of the control plane's trust anchors")
	flags.StringVar(&c.Address, "sentry-address", "",
		"`host:port` of Dapr's sentry; default dapr-sentry.NAMESPACE.svc:443, with NAMESPACE from the environment")
}

// inKubernetes reports whether sentry, the cluster and the namespaces are those of Kubernetes.
func (s *sentryFlags) inKubernetes() bool { return s.mode.String() == daprMode }

// addIdentity declares the flags for a command that talks to a node as another node would.
func (s *sentryFlags) addIdentity(cmd *cobra.Command) {
	s.add(cmd.Flags(), "reach a node whose --grpc-listen is for the other nodes: with a certificate of Dapr's sentry, as a node has it; "+
		"this flag and the next four are those of dapr-scheduler")
	cmd.Flags().Var(&s.mode, "mode", "where Dapr runs; with "+daprMode+" TLS is enabled and sentry is shown the pod's token")
	complete(cmd, "mode", s.mode.words)
}

// identify makes c connect with an identity of sentry's, if the flags say so, once there is one; end gives it
// up.
func (s *sentryFlags) identify(cmd *cobra.Command, c *connection) (end func(), err error) {
	c.resolve(cmd)
	if !s.tls && !s.inKubernetes() {
		return func() {}, unusedWithout(cmd, "tls-enabled", "trust-domain", "trust-anchors-file", "sentry-address")
	}
	for name, value := range c.tlsFlags() {
		if *value != "" {
			return nil, usagef("--%s: with --tls-enabled the certificates are sentry's; leave it out, also in the environment (%s)",
				name, envName(name))
		}
	}
	sentry := s.sentry
	sentry.Kubernetes = s.inKubernetes()
	identity, err := daprtls.FromSentry(sentry)
	if err != nil {
		return nil, usagef("%s", err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.wait)
	defer cancel()
	done := newProgress(cmd.ErrOrStderr()).wait("waiting for a certificate of sentry …")
	defer done()
	if err := identity.Wait(ctx); err != nil {
		why := cmp.Or(identity.Ready(), err)
		identity.Close()
		return nil, fmt.Errorf("--tls-enabled: within %v: %w", c.wait, why)
	}
	c.more = []client.Option{client.WithDialOptions(identity.NodeDialOptions()...)}
	return identity.Close, nil
}

// unusedWithout refuses flags that mean something only with another one.
func unusedWithout(cmd *cobra.Command, other string, names ...string) error {
	i := slices.IndexFunc(names, cmd.Flags().Changed)
	if i < 0 {
		return nil
	}
	return usagef("--%s: it goes with --%s", names[i], other)
}
