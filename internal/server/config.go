package server

import (
	"cmp"
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
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/internal/dispatch/httptarget"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store/pebble"
)

// Config is what a node is made with. The zero value of a field is its default, given here; Store has none.
type Config struct {
	// Store is the URL of the store: "pebble:DIR" keeps everything in a folder of this machine, "postgres://…" in a PostgreSQL
	// database, "memory:" forgets everything at the end.
	Store string
	// Name is the node's among those that have opened its store. A node that is started again under the name that it had takes
	// its partitions at once; under another, when the leases of its last life have ended. No two may have the same at a time.
	// Default "local" on a store that only this process can use, otherwise the machine's name.
	Name string
	// LeaseTTL is how long the leases of partitions are valid in a cluster, and so how long what a dead node owned is left alone.
	// Only on a store that nodes share. Default [cluster.DefaultTTL], 4 s.
	LeaseTTL time.Duration
	// Partitions is P of a new store, fixed for its life; an existing store keeps its own. Default 64.
	Partitions int

	// GRPC and HTTP are the addresses to listen on, host:port; port 0 picks a free one; [None] is not at all. Default
	// [DefaultGRPC], [DefaultHTTP].
	GRPC, HTTP string
	// Advertise is the host, or host:port, at which the other nodes of the store, clients and sidecars reach this one; the port is
	// that of GRPC. Default: what is listened at, and where that is all of the machine, the machine's name.
	Advertise string
	// AdvertiseSidecars is the host:port that sidecars of Dapr are told. Default: as Advertise, with the port at which they are
	// listened for. A node that is alone, and listens on all of the machine, tells each the address at which it was reached.
	AdvertiseSidecars string
	// Sidecars is a listener for Dapr's sidecars. Default: there is none.
	Sidecars *Sidecars
	// Healthz and Metrics are addresses at which nothing is served but /healthz, and the metrics, as Dapr's programs do. They may
	// be reachable from other machines without Insecure, for probes and scrapers. Default: they are not served there.
	Healthz, Metrics string
	// Debug is the address to serve profiles of the process at (package profiling). Default: they are not served.
	Debug string
	// Insecure allows GRPC, HTTP and Debug beyond loopback although nobody is authenticated.
	Insecure bool
	// Hosts are the names under which browsers may reach the HTTP listener, against DNS rebinding, besides IP addresses, the host
	// of Advertise, and names that nobody can register: those without a dot, and under .localhost, .internal and .cluster.local.
	Hosts []string
	// TrustedOrigins are the origins besides the node's own whose pages may use the API in a browser, such as
	// "https://admin.example.com". Default none.
	TrustedOrigins []string

	// AllowTargets are the private addresses that HTTP targets may reach. Default none.
	AllowTargets []netip.Prefix
	// HTTPHostLimit is the most requests to one host at a time. Default: that of package httptarget, 128.
	HTTPHostLimit int
	// SigningSecrets sign the requests of a namespace's HTTP targets (Standard Webhooks), newest first; each begins with
	// "whsec_". Default: requests are not signed.
	SigningSecrets map[string][]string

	// Limits on what a job may hold. Default [carillon.DefaultBounds].
	Limits carillon.Bounds
	// WindowJobs is the most jobs in memory. Default 100,000.
	WindowJobs int
	// DeadRetention is how long dead runs are kept for a redrive. Default 30 days.
	DeadRetention time.Duration

	// SlowStartInitial is how many attempts may be in flight right after a start with a backlog. Default 16.
	SlowStartInitial int
	// SlowStartStep is after how long they may be twice as many, again and again. Default 2 s; negative: there is no bound.
	SlowStartStep time.Duration

	// DrainGrace is how long attempts in force may go on when the node leaves. Default 20 s; negative: they may not.
	DrainGrace time.Duration
	// Log is told what a person should know. Default: nothing is.
	Log *slog.Logger
	// Now reads the wall clock; a simulation may skew it. Default [time.Now].
	Now func() time.Time
	// Version of the program, for the metrics. Default "dev".
	Version string

	// APIs are further services on the gRPC listener. Default none.
	APIs []API

	// self is the node as others are told of it.
	self carillon.Node
	// tune changes how a folder is opened: tests put a disk under it that fails.
	tune    func(*pebble.Options)
	arrival time.Duration // how long workers may take to come to a node of a cluster; 0: 10 s
}

// None is the address of a listener that there is not to be.
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
	c.SlowStartInitial = cmp.Or(c.SlowStartInitial, DefaultSlowStartInitial)
	c.SlowStartStep = cmp.Or(c.SlowStartStep, DefaultSlowStartStep)
	c.DeadRetention = cmp.Or(c.DeadRetention, DefaultDeadRetention)
	c.DrainGrace = max(0, cmp.Or(c.DrainGrace, DefaultDrainGrace))
	c.Version = cmp.Or(c.Version, "dev")
	c.Name = cmp.Or(c.Name, defaultName(c.Store))
	if isShared(c.Store) {
		c.LeaseTTL = cmp.Or(c.LeaseTTL, cluster.DefaultTTL)
	}
	if c.Limits == (carillon.Bounds{}) {
		c.Limits = carillon.DefaultBounds()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate names everything that is wrong with the configuration, all at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	faults := []error{c.validateNode()}
	for _, l := range c.endpoints() {
		faults = append(faults, c.validateListener(l))
	}
	return errors.Join(append(faults, c.validateCluster())...)
}

// validateNode judges what a node without listeners needs.
func (c Config) validateNode() error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if _, _, err := parseStore(c.Store); err != nil {
		faults = append(faults, err)
	}
	if c.Partitions < 0 || c.Partitions > maxPartitions {
		wrong("partitions: %d is not between 1 and %d", c.Partitions, maxPartitions)
	}
	for _, s := range c.counts() {
		if s.value < 0 {
			wrong("%s: %d is negative", s.name, s.value)
		}
	}
	if c.DeadRetention < 0 {
		wrong("dead_retention: %v is negative", c.DeadRetention)
	}
	for i, p := range c.AllowTargets {
		if !p.IsValid() {
			wrong("allow_targets[%d]: this is not a range of addresses such as 10.0.0.0/8", i)
		}
	}
	_, err := c.secrets()
	return errors.Join(append(faults, err, c.validateMember())...)
}

// count is a setting that says how many of something there may be.
type count struct {
	name  string
	value int
}

func (c Config) counts() []count {
	return []count{{"window_jobs", c.WindowJobs}, {"slow_start_initial", c.SlowStartInitial}, {"http_host_limit", c.HTTPHostLimit},
		{"max_payload", c.Limits.Payload}, {"max_metadata", c.Limits.Metadata}, {"max_labels", c.Limits.Labels}, {"max_headers", c.Limits.Headers}}
}

// secrets are the signing secrets, raw, and what is wrong with them.
func (c Config) secrets() (map[string][][]byte, error) {
	raw := map[string][][]byte{}
	var faults []error
	for _, ns := range slices.Sorted(maps.Keys(c.SigningSecrets)) {
		for i, text := range c.SigningSecrets[ns] {
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

// validateListener refuses to be open to a network: whoever can reach a node may do everything there.
func (c Config) validateListener(l endpoint) error {
	host, _, err := net.SplitHostPort(l.address)
	if err != nil {
		return fmt.Errorf("%s: %q is not an address such as 127.0.0.1:7070", l.name, l.address)
	}
	if c.Insecure || l.open || OnLoopback(host) {
		return nil
	}
	return fmt.Errorf("%s: %s is reachable from other machines, and nobody is authenticated yet: "+
		"listen on 127.0.0.1, or say insecure if the network may do everything", l.name, l.address)
}

// OnLoopback reports whether a listener on the host can be reached from this machine only. Other names than localhost are
// not looked up: what they mean can change.
func OnLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allowHost is whether a request to the HTTP listener may name the host: against pages that rebind a name of their own to
// the node's address. Such a page has a domain that somebody can register. A request without a host, as HTTP/1.0 has them, is not
// from a browser.
func (c Config) allowHost(hostport string) bool {
	host := strings.ToLower(strings.TrimSuffix(hostOf(hostport), "."))
	if advertised, _ := splitAdvertised(c.Advertise); advertised != "" && strings.EqualFold(host, advertised) {
		return true
	}
	if isPrivateName(host) || slices.ContainsFunc(c.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// isPrivateName reports whether nobody can register the name: it has no dot, or ends in what is reserved for the names of a machine
// (RFC 6761), of a site (ICANN's .internal) or of a Kubernetes cluster.
func isPrivateName(host string) bool {
	if !strings.Contains(host, ".") {
		return true
	}
	for _, suffix := range []string{".localhost", ".internal", ".cluster.local"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

// hostOf is the host of host:port, or of a host alone.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
