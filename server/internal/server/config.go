package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/dispatch/httptarget"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// Config configures a node. The zero value of a field is its default, given here; Store has none.
type Config struct {
	// Store is the URL of the store: "pebble:DIR" keeps everything in a folder of this machine,
	// "postgres://…" in a PostgreSQL database, "redis://…" in Redis, "etcd://…" in etcd; "memory:" keeps
	// nothing. The program imports the store's package.
	Store string
	// Name is the node's name, unique among the nodes of its store. A node that is started again under its
	// name takes its partitions at once; under another name, when the leases of its last life have ended.
	// Default "local" on a store that only this process can use, otherwise the machine's name.
	Name string
	// LeaseTTL is how long leases of partitions last in a cluster, and so for how long nobody takes the
	// partitions of a dead node. Only for a store that nodes share. Default [cluster.DefaultTTL], 4 s, or what
	// the store has for one ([store.Driver]).
	LeaseTTL time.Duration
	// Partitions is the number of partitions of a new store; an existing store keeps its own. Default 64.
	Partitions int

	// GRPC and HTTP are the addresses to listen on, host:port; port 0 picks a free one; [None]: do not
	// listen. Default [DefaultGRPC], [DefaultHTTP].
	GRPC, HTTP string
	// Advertise is the host, or host:port, at which other nodes of the store, clients and sidecars reach this
	// one; the port is that of GRPC. Default: the address listened on, and if that is all of the machine, the
	// machine's name.
	Advertise string
	// AdvertiseSidecars is the host:port that Dapr sidecars are told. Default: as Advertise, with the port of
	// the sidecars' listener. A node that is alone and listens on all of the machine tells each the address
	// at which it was reached.
	AdvertiseSidecars string
	// Sidecars is a listener for Dapr sidecars. Default: none.
	Sidecars *Sidecars
	// Monitoring are further listeners.
	Monitoring Monitoring
	// Credentials secure GRPC for the other nodes of the store and, if they say so, GRPC and HTTP for clients.
	// Default: plain text.
	Credentials *Credentials
	// Insecure allows GRPC, HTTP and Monitoring.Debug beyond loopback although nobody is authenticated there.
	Insecure bool
	// Browsers says what browsers may do at the HTTP listener.
	Browsers Browsers

	// Payloads keeps large payloads outside Store. Nil: they stay in it.
	Payloads *Payloads

	// Targets configures what the node sends by itself: to HTTP targets and message brokers.
	Targets Targets

	// Limits bound the parts of a job. Default [carillon.DefaultBounds].
	Limits carillon.Bounds
	// WindowJobs is the most jobs in memory. Default 100,000.
	WindowJobs int
	// DeadRetention is how long dead runs are kept for a redrive. Default 30 days.
	DeadRetention time.Duration

	// SlowStart bounds what is in flight right after a start with a backlog.
	SlowStart SlowStart
	// Outages says what happens while the store is away, and afterwards.
	Outages Outages

	// DrainGrace is how long attempts in force may go on when the node leaves. Default 20 s; negative: not at
	// all.
	DrainGrace time.Duration
	// Log gets what operators should know. Default: no log.
	Log *slog.Logger
	// Now reads the wall clock; a simulation may skew it. Default [time.Now].
	Now func() time.Time

	Extensions
	unsaid
}

// Extensions are parts of a node that are there only if they are named. Default: none.
type Extensions struct {
	// Auth says how callers of GRPC and HTTP prove who they are: [AuthKeys], [AuthOIDC] and [AuthCertificates],
	// one or several with commas between; or [None]: they do not, and may do everything. Default: none, which
	// is refused on a store that has keys.
	Auth string
	// BootstrapKeyFile has an API key, which becomes the first one, an admin of all namespaces, on a store that
	// has none; otherwise it is ignored. Only for [AuthKeys]. Default: none.
	BootstrapKeyFile string
	// AuthRules is the file of rules by which callers with a token or a certificate are granted something.
	// Required for these.
	AuthRules string
	// OIDC says whose tokens are taken. Required for [AuthOIDC].
	OIDC OIDC

	// Audit says how it is recorded who makes which calls.
	Audit Audit

	// Encryption says with which keys what jobs hold is encrypted in the store. Default: it is not.
	Encryption Encryption

	APIs  []API  // further services on the gRPC listener
	Feeds []Feed // bring commands from elsewhere
}

// unsaid is what no caller says.
type unsaid struct {
	self  carillon.Node // the node as other nodes see it
	hooks hooks         // for tests
}

// Monitoring are addresses to listen on for those who watch a node. Default: none.
type Monitoring struct {
	// Healthz and Metrics serve only /healthz, and only the metrics, as Dapr's programs do. They may be
	// reachable from other machines without Insecure, for probes and scrapers.
	Healthz, Metrics string
	// Debug serves profiles of the process (package profiling).
	Debug string
	// Traces exports traces by OTLP. Nil: none are made.
	Traces *Traces
	// Tools serves tools of Dapr's that look at its jobs. Nil: none.
	Tools *Tools
	// Version is the program's version, for metrics and traces. Default "dev".
	Version string
}

// Browsers says what browsers may do.
type Browsers struct {
	// Hosts are the names under which browsers may reach the HTTP listener, against DNS rebinding. Always
	// allowed are IP addresses, the host of Advertise, and names that nobody can register: those without a
	// dot, and those under .localhost, .internal and .cluster.local.
	Hosts []string
	// TrustedOrigins are the origins besides the node's own whose pages may use the API in a browser, such as
	// "https://admin.example.com". Default: none.
	TrustedOrigins []string
	// NoPage leaves out the page at / of the HTTP listener.
	NoPage bool
}

// Targets configures requests to HTTP targets, and messages to brokers.
type Targets struct {
	// Allow are the private addresses that may be reached. Default: none.
	Allow []netip.Prefix
	// HostLimit is the most concurrent requests to one host. Default: that of package httptarget, 128.
	HostLimit int
	// SigningSecrets sign the requests of a namespace's jobs (Standard Webhooks), newest first; each begins
	// with "whsec_". Default: requests are not signed.
	SigningSecrets map[string][]string
	// Secrets says which secrets headers of HTTP targets may refer to. Default: none.
	Secrets Secrets
	// Brokers says which message brokers runs may be sent to. Default: none.
	Brokers Brokers
}

// SlowStart bounds what is in flight right after a start with a backlog.
type SlowStart struct {
	// Initial is how many attempts may be in flight at first. Default 16.
	Initial int
	// Step is the interval at which that number doubles. Default 2 s; negative: no bound.
	Step time.Duration
}

// Outages says what happens while the store does not answer, and afterwards.
type Outages struct {
	// FireCritical: runs of critical jobs that are in memory leave nevertheless, until the lease of their
	// partition ends. By default nothing leaves.
	FireCritical bool
	// CatchUpRate is how many runs a second leave this node, at most, of those that became due while the
	// store was away; critical ones are not bounded. Default 0: any number.
	CatchUpRate int
}

// hooks change a node for tests.
type hooks struct {
	// open opens the store: a test's disk fails. Nil: [store.Open].
	open    func(ctx context.Context, url string, o store.Options) (store.Store, error)
	arrival time.Duration // how long workers may take to arrive at a node of a cluster; 0: 10 s
}

// None as an address means that there is no such listener.
const None = "none"

// Defaults of the configuration.
const (
	DefaultGRPC       = "127.0.0.1:7070"
	DefaultHTTP       = "127.0.0.1:7080"
	DefaultDrainGrace = 20 * time.Second
	DefaultWindowJobs = 100_000

	DefaultSlowStartInitial = 16
	DefaultSlowStartStep    = 2 * time.Second
	DefaultDeadRetention    = partition.DefaultDeadRetention
)

func (c Config) withDefaults() Config {
	c.GRPC = cmp.Or(c.GRPC, DefaultGRPC)
	c.HTTP = cmp.Or(c.HTTP, DefaultHTTP)
	c.WindowJobs = cmp.Or(c.WindowJobs, DefaultWindowJobs)
	c.SlowStart.Initial = cmp.Or(c.SlowStart.Initial, DefaultSlowStartInitial)
	c.SlowStart.Step = cmp.Or(c.SlowStart.Step, DefaultSlowStartStep)
	c.DeadRetention = cmp.Or(c.DeadRetention, DefaultDeadRetention)
	c.DrainGrace = max(0, cmp.Or(c.DrainGrace, DefaultDrainGrace))
	c.Monitoring.Version = cmp.Or(c.Monitoring.Version, "dev")
	c.Name = cmp.Or(c.Name, defaultName(c.Store))
	if isShared(c.Store) {
		c.LeaseTTL = cmp.Or(c.LeaseTTL, leaseTTL(c.Store), cluster.DefaultTTL)
	}
	if c.Limits == (carillon.Bounds{}) {
		c.Limits = carillon.DefaultBounds()
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.hooks.open == nil {
		c.hooks.open = store.Open
	}
	return c
}

// Validate returns everything that is wrong with the configuration, all at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	faults := []error{c.validateNode()}
	for _, l := range c.endpoints() {
		faults = append(faults, c.validateListener(l))
	}
	return errors.Join(append(faults, c.validateAuth(), c.validateCluster())...)
}

// validateNode checks what a node without listeners needs.
func (c Config) validateNode() error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := store.CheckURL(c.Store); err != nil {
		faults = append(faults, err)
	}
	if c.Partitions < 0 || c.Partitions > store.MaxPartitions {
		wrong("partitions: %d is not between 1 and %d", c.Partitions, store.MaxPartitions)
	}
	for _, s := range [...]struct {
		name  string
		value int
	}{
		{"window_jobs", c.WindowJobs}, {"slow_start_initial", c.SlowStart.Initial},
		{"catch_up_rate", c.Outages.CatchUpRate},
		{"http_host_limit", c.Targets.HostLimit},
		{"max_payload", c.Limits.Payload}, {"max_metadata", c.Limits.Metadata},
		{"max_labels", c.Limits.Labels}, {"max_headers", c.Limits.Headers},
	} {
		if s.value < 0 {
			wrong("%s: %d is negative", s.name, s.value)
		}
	}
	if c.DeadRetention < 0 {
		wrong("dead_retention: %v is negative", c.DeadRetention)
	}
	for i, p := range c.Targets.Allow {
		if !p.IsValid() {
			wrong("allow_targets[%d]: this is not a range of addresses such as 10.0.0.0/8", i)
		}
	}
	_, err := c.secrets()
	return errors.Join(append(faults, err, c.Monitoring.Traces.validate(), c.Payloads.validate(),
		c.Targets.Brokers.validate(), c.Targets.Secrets.validate(), c.Encryption.validate(), c.validateAudit(),
		c.validateMember())...)
}

// secrets returns the raw signing secrets, and what is wrong with them.
func (c Config) secrets() (map[string][][]byte, error) {
	raw := map[string][][]byte{}
	var faults []error
	for _, ns := range slices.Sorted(maps.Keys(c.Targets.SigningSecrets)) {
		for i, text := range c.Targets.SigningSecrets[ns] {
			secret, err := httptarget.ParseSecret(text)
			if err != nil {
				faults = append(faults, fmt.Errorf("signing_secrets[%s][%d]: %w", ns, i, err))
				continue
			}
			raw[ns] = append(raw[ns], secret)
		}
	}
	return raw, errors.Join(faults...)
}

// validateListener refuses a listener open to a network: whoever can reach a node may do anything there.
func (c Config) validateListener(l endpoint) error {
	host, _, err := net.SplitHostPort(l.address)
	if err != nil {
		return fmt.Errorf("%s: %q is not an address such as 127.0.0.1:7070", l.name, l.address)
	}
	if c.Insecure || l.open || OnLoopback(host) {
		return nil
	}
	if c.judged() && c.Credentials.clients() == nil && (l.name == "grpc" || l.name == "http") {
		return fmt.Errorf("%s: %s is reachable from other machines, and API keys and tokens would travel in plain text: "+
			"give the node TLS (tls_cert, tls_key), listen on 127.0.0.1, or say insecure if the network is encrypted by itself", l.name, l.address)
	}
	if c.Credentials.clients() != nil {
		return fmt.Errorf("%s: %s is reachable from other machines, and clients need no certificate: demand one (tls_client_ca), "+
			"listen on 127.0.0.1, or say insecure if the network may do everything", l.name, l.address)
	}
	return fmt.Errorf("%s: %s is reachable from other machines, and nobody is authenticated yet: "+
		"listen on 127.0.0.1, or say insecure if the network may do everything", l.name, l.address)
}

// OnLoopback reports whether a listener on the host can be reached from this machine only. Names other than
// localhost are not resolved: what they resolve to can change.
func OnLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allowHost reports whether a request to the HTTP listener may name the host. This protects against pages
// that rebind their own name to the node's address: such a page has a domain that somebody can register. A
// request without a host, possible in HTTP/1.0, does not come from a browser.
func (c Config) allowHost(hostport string) bool {
	host := strings.ToLower(strings.TrimSuffix(hostOf(hostport), "."))
	if advertised, _ := splitAdvertised(c.Advertise); advertised != "" && strings.EqualFold(host, advertised) {
		return true
	}
	if isPrivateName(host) || slices.ContainsFunc(c.Browsers.Hosts,
		func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// isPrivateName reports whether nobody can register the name: it has no dot, or ends in a suffix reserved for
// the names of a machine (RFC 6761), of a site (ICANN's .internal) or of a Kubernetes cluster.
func isPrivateName(host string) bool {
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") ||
		strings.HasSuffix(host, ".internal") || strings.HasSuffix(host, ".cluster.local")
}

// hostOf returns the host of host:port, or of a host alone.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
