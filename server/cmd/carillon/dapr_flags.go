package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprtls"
	"github.com/carillonhq/carillon/server/internal/server"
)

// daprFlags holds the flags of Dapr 1.18's scheduler, with its names and defaults, and some of Carillon's
// own.
type daprFlags struct {
	id         string
	listen     string
	port       int
	broadcast  string
	logLevel   choice
	logJSON    bool
	logFile    string
	kubeconfig string

	healthz       door
	metrics       bool
	metricsListen string
	metricsPort   int

	sentryFlags
	files daprtls.Files // Carillon's own

	dataDir       string
	etcdEmbed     bool
	etcdEndpoints []string
	etcdUsername  string
	etcdPassword  string
	etcdCluster   []string
	tools         toolsDoor

	daprOwn
}

// daprOwn are flags that Dapr's scheduler does not have. Only they are settings: they may come from the
// environment and a file too, because what starts Dapr's program may leave no room for them on its command
// line, and because a password does not belong there. Dapr's own come from the command line, as in Dapr: for
// some of them, such as --metrics-port, Kubernetes sets a variable if there is a service of a like name.
type daprOwn struct {
	settings *pflag.FlagSet // all of them
	file     string
	jobsFlags
	own server.Config
}

// daprSettings returns the flags of the command that may come from the environment.
func daprSettings() *pflag.FlagSet {
	f := newDaprFlags()
	f.add(pflag.NewFlagSet(daprCommand, pflag.ContinueOnError))
	return f.settings
}

// door is where to listen.
type door struct {
	listen string
	port   int
}

// toolsDoor is where to listen for tools that look for an etcd.
type toolsDoor struct {
	listen string
	port   uint64
}

// jobsFlags say where jobs are kept, and where they come from.
type jobsFlags struct {
	store      string
	importFrom []string
}

// daprMode is the mode in which sentry, the cluster and the namespaces are those of Kubernetes.
const daprMode = "kubernetes"

// daprMaxPayload exceeds what etcd, and so Dapr's scheduler, accepts in one request with Dapr's settings.
const daprMaxPayload = 4 << 20

// daprDrainGrace is the time that Dapr's scheduler takes to leave.
const daprDrainGrace = 5 * time.Second

// newDaprFlags returns the flags with the words that they accept.
func newDaprFlags() *daprFlags {
	return &daprFlags{
		logLevel:    choice{words: []string{"info", "debug", "warn", "error", "fatal"}, anyCase: true},
		sentryFlags: newSentryFlags(),
	}
}

// add declares all of the flags.
func (f *daprFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	f.addListeners(flags)
	f.addSecurity(flags)
	f.addEtcd(flags)
	addIdle(flags)
	f.addOwn(flags)
}

func (f *daprFlags) addListeners(flags *pflag.FlagSet) {
	flags.IntVar(&f.port, "port", 50006, "port to take sidecars at; 0 picks a free one, also below")
	flags.StringVar(&f.listen, "listen-address", "",
		"`address` to take sidecars at; default all of this machine")
	flags.StringVar(&f.broadcast, "override-broadcast-host-port", "",
		"`host:port` that sidecars are told to connect to; default where each has reached the node")
	flags.IntVar(&f.healthz.port, "healthz-port", 8080, "port to answer /healthz at")
	flags.StringVar(&f.healthz.listen, "healthz-listen-address", "",
		"`address` to answer /healthz at; default all of this machine")
	flags.BoolVar(&f.metrics, "enable-metrics", true, "serve metrics")
	flags.IntVar(&f.metricsPort, "metrics-port", 9090, "port to serve metrics at")
	flags.StringVar(&f.metricsListen, "metrics-listen-address", "0.0.0.0",
		"`address` to serve metrics at; if not given, --listen-address")
	flags.StringVar(&f.id, "id", "dapr-scheduler-server-0",
		"`name` of this node, in the log and among the nodes of --store")
	flags.Var(&f.logLevel, "log-level", "what to write to the log")
	flags.BoolVar(&f.logJSON, "log-as-json", false, "write the log as JSON")
	flags.StringVar(&f.logFile, "log-file", "", "`file` to append the log to; default standard error")
}

func (f *daprFlags) addSecurity(flags *pflag.FlagSet) {
	f.sentryFlags.add(flags, "let in only sidecars with a certificate of Dapr's sentry; always so with --mode kubernetes")
	flags.StringVar(&f.sentry.WriteTo, "identity-directory-write", "",
		"`folder` to write the certificate, its key and the trust anchors to; default none")
	flags.Var(&f.mode, "mode", "where Dapr runs")
}

func (f *daprFlags) addEtcd(flags *pflag.FlagSet) {
	flags.StringVar(&f.dataDir, "etcd-data-dir", "./data",
		"`folder` in which jobs are kept, in a folder \"carillon\" of its own")
	flags.BoolVar(&f.etcdEmbed, "etcd-embed", true, "must be true: an external etcd is not supported yet")
	flags.StringSliceVar(&f.etcdEndpoints, "etcd-client-endpoints", nil,
		"not supported yet: `addresses` of an external etcd")
	flags.StringVar(&f.etcdUsername, "etcd-client-username", "",
		"not supported yet: `name` for an external etcd")
	flags.StringVar(&f.etcdPassword, "etcd-client-password", "",
		"not supported yet: `password` for an external etcd")
	flags.StringSliceVar(&f.etcdCluster, "etcd-initial-cluster",
		[]string{"dapr-scheduler-server-0=http://localhost:2380"},
		"`members` of the cluster, NAME=URL; several need a store that they share, and then the host of the one named --id is "+
			"where the others reach this node")
	flags.Uint64Var(&f.tools.port, "etcd-client-port", 2379,
		"port at which tools such as dapr scheduler list find the jobs, by etcd's calls; 0 picks a free one")
	flags.StringVar(&f.tools.listen, "etcd-client-listen-address", "localhost",
		"`address` to take such tools at; none takes none")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"`file` that says where the API server of Kubernetes is, with --mode kubernetes; default that of the pod's own cluster")
}

// idleFlag is a flag of Dapr's scheduler that has no effect here, and why.
type idleFlag struct {
	name string
	def  any // its default; nil: the flag is declared elsewhere, since some of its values are refused
	why  string
}

// idle lists them all.
var idle = []idleFlag{
	{"etcd-space-quota", "9.2E", "jobs may fill the disk"},
	{"etcd-compaction-mode", "revision", "the store compacts as it goes"},
	{"etcd-compaction-retention", "1000000", "the store compacts as it goes"},
	{"etcd-snapshot-count", uint64(100_000), "there is no etcd"},
	{"etcd-max-snapshots", uint(10), "there is no etcd"},
	{"etcd-max-wals", uint(10), "there is no etcd"},
	{"etcd-backend-batch-limit", 10_000, "the store makes its own batches"},
	{"etcd-backend-batch-interval", "100ms", "nothing is acknowledged before it is on disk"},
	{"etcd-max-txn-ops", uint(10_000), "there is no etcd"},
	{"etcd-experimental-bootstrap-defrag-threshold-megabytes", uint(100), "the store compacts as it goes"},
	{"etcd-initial-election-tick-advance", false, "one node elects nobody"},
	{"etcd-metrics", "basic", "there is no etcd"},
	{"workers", uint32(2048), "deliveries are not bound to a number of goroutines"},
}

// addIdle declares the flags without effect with their types, so that a value that Dapr refuses is refused.
func addIdle(flags *pflag.FlagSet) {
	for _, f := range idle {
		usage := "ignored: " + f.why
		switch def := f.def.(type) {
		case bool:
			flags.Bool(f.name, def, usage)
		case int:
			flags.Int(f.name, def, usage)
		case uint:
			flags.Uint(f.name, def, usage)
		case uint32:
			flags.Uint32(f.name, def, usage)
		case uint64:
			flags.Uint64(f.name, def, usage)
		case string:
			flags.String(f.name, def, usage)
		}
	}
}

// addOwn declares the flags that Dapr's scheduler does not have.
func (f *daprFlags) addOwn(all *pflag.FlagSet) {
	c, flags := &f.own, pflag.NewFlagSet("own", pflag.ContinueOnError)
	flags.SortFlags, f.settings = false, flags
	flags.StringVar(&f.file, "config", "", "YAML `file` of the settings from here on; default none")
	flags.StringVar(&c.GRPC, "grpc-listen", "",
		"`address` to take Carillon's own gRPC at, or, of a store that several share, the other nodes; default none, with several "+
			"members port 7070 of --listen-address")
	flags.StringVar(&c.Advertise, "advertise", "",
		"`host` or host:port at which the other nodes of the store reach this one; default where it listens; if that is all of "+
			"the machine, POD_IP of the environment, the host of --etcd-initial-cluster, or the machine's name")
	flags.DurationVar(&c.LeaseTTL, "lease-ttl", 0,
		"how long the partitions of a dead node are left alone, on a store that nodes share; default 4s, of a bucket 2m")
	flags.StringVar(&c.HTTP, "http-listen", "", "`address` to take Carillon's own HTTP at; default none")
	flags.BoolVar(&c.Insecure, "insecure", false,
		"let --grpc-listen and --http-listen be beyond loopback although nobody is authenticated there; nodes then use no TLS")
	flags.StringVar(&f.store, "store", "",
		"`url` of the store, as of carillon serve, in place of --etcd-data-dir; nodes may share one; with a password "+
			"better as CARILLON_STORE")
	flags.StringSliceVar(&f.importFrom, "import-from", nil,
		"`sources` of carillon dapr import, with commas between: their jobs come in before sidecars do, and once")
	flags.DurationVar(&c.DrainGrace, "drain-grace", daprDrainGrace,
		"how long runs in force may go on when the node leaves; 0 is not at all")
	flags.StringVar(&f.files.Cert, "tls-cert-file", "",
		"`file` of this node's certificate, in place of one that sentry signs")
	flags.StringVar(&f.files.Key, "tls-key-file", "", "`file` of its private key")
	flags.StringVar(&f.files.CA, "tls-ca-file", "",
		"`file` of the certificates that sidecars are verified against")
	flags.StringSliceVar(&f.sentry.ClientTrustDomains, "client-trust-domain", nil,
		"trust `domain` whose sidecars are let in; repeatable; default all")
	c.Limits = carillon.DefaultBounds()
	c.Limits.Payload = daprMaxPayload
	flags.IntVar(&c.Limits.Payload, "max-payload", c.Limits.Payload, "most `bytes` of a job's data")
	addAudit(flags, c, "default off")
	all.AddFlagSet(flags)
}
