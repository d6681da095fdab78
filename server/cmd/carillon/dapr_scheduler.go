package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
	"github.com/carillonhq/carillon/server/internal/daprtls"
	"github.com/carillonhq/carillon/server/internal/etcdapi"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// daprCommand is the name of the command, and daprProgram that of the program in whose place it runs.
const (
	daprCommand = "dapr-scheduler"
	daprProgram = "scheduler"
)

// called returns the arguments of a process that was started under a name. Called as Dapr's program, for
// example by a link, it is the command in its place: what starts that can be given no other command.
func called(as string, args []string) []string {
	if name := filepath.Base(as); name == daprProgram || name == daprProgram+".exe" {
		return append([]string{daprCommand}, args...)
	}
	return args
}

// newDaprScheduler returns the command `carillon dapr-scheduler`.
func newDaprScheduler(a app) *cobra.Command {
	f := newDaprFlags()
	cmd := &cobra.Command{
		Use:   daprCommand,
		Short: "Run a node in the place of Dapr's scheduler",
		Long: `Run a node in the place of Dapr's scheduler: with its flags, its ports, and its protocol only. Flags of Dapr 1.18's
scheduler that mean nothing here are taken with a notice in the log; what they ask for and a node cannot do yet is refused.

The flags that Dapr's does not have, from --config on, are settings that may also come from the environment (CARILLON_STORE for
--store) or from a YAML file (store; grpc_listen for --grpc-listen). The command line wins over the environment, the environment over
the file. A password belongs into one of the latter two. Dapr's own flags come from the command line only.

The commands dapr scheduler list, get, delete, export and so on work at --etcd-client-port.

Without TLS whoever reaches the port can read, change and receive all jobs, as with Dapr's scheduler. With --tls-enabled a
sidecar is let in by a certificate of Dapr's sentry, and has the jobs of its own namespace and app id only.

Called by the name "scheduler", for example by a link, carillon is this command. Exit codes: 0 done, 1 failed or wrong usage.

On SIGTERM or Ctrl-C the node lets the runs in force finish for a while and leaves; a second signal ends it at once.`,
		Example: `carillon dapr-scheduler --etcd-data-dir /var/lib/dapr-scheduler --listen-address 127.0.0.1
carillon dapr-scheduler --tls-enabled --trust-anchors-file /etc/dapr/ca.crt --sentry-address 127.0.0.1:50001
carillon dapr-scheduler --http-listen 127.0.0.1:7080 --grpc-listen 127.0.0.1:7070`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, a) },
	}
	f.add(cmd.Flags())
	complete(cmd, "log-level", f.logLevel.words)
	complete(cmd, "mode", f.mode.words)
	return cmd
}

func (f *daprFlags) run(cmd *cobra.Command, a app) (err error) {
	shown := exposed(cmd.Flags())
	if err := settings(f.settings, f.file, "", nil); err != nil {
		return err
	}
	if err := f.validate(cmd.Flags()); err != nil {
		return err
	}
	log, closeLog, err := f.logger(a.errs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	f.notices(cmd.Flags(), log)
	warnOfExposed(shown, log)
	collectLess()
	return f.serve(cmd.Context(), f.config(cmd.Flags(), log))
}

// serve runs the node until ctx ends.
func (f *daprFlags) serve(ctx context.Context, c server.Config) error {
	service := daprapi.Options{Logger: c.Log}
	if f.secure() {
		identity, err := f.identity(c.Log)
		if err != nil {
			return usagef("%s", err)
		}
		defer identity.Close()
		admit(identity, &c, &service)
	}
	c.Sidecars.API = daprAPI(service)
	if f.inKubernetes() {
		if err := f.followNamespaces(&c); err != nil {
			return usagef("%s", err)
		}
	}
	if c.Monitoring.Tools != nil {
		o := f.etcdOptions(c.Log)
		c.Monitoring.Tools.API, c.Monitoring.Tools.Options = etcdAPI(o), o.ServerOptions()
	}
	if len(f.importFrom) > 0 {
		return importFirst(ctx, c, f.importFrom)
	}
	return runNode(ctx, c)
}

// admit admits only sidecars and nodes with certificates. The node becomes ready when it first has an
// identity, and stays ready when that expires: otherwise a probe would restart it, which would not renew the
// identity but cut the existing streams.
func admit(identity *daprtls.Source, c *server.Config, service *daprapi.Options) {
	service.Authorize = identity.Authorize
	if c.Credentials != nil {
		c.Credentials = &server.Credentials{Server: identity.NodeServerOptions(),
			Dial: identity.NodeDialOptions(), Ready: identity.Ready}
	}
	c.Sidecars.Options, c.Sidecars.Ready = identity.ServerOptions(), identity.Ready
}

// secure reports whether only sidecars with certificates are admitted.
func (f *daprFlags) secure() bool {
	return f.tls || f.inKubernetes() || f.fromFiles()
}

// fromFiles reports whether this node's certificate is in files.
func (f *daprFlags) fromFiles() bool { return f.files.Cert+f.files.Key+f.files.CA != "" }

// identity returns this node's identity, signed by sentry or from files.
func (f *daprFlags) identity(log *slog.Logger) (*daprtls.Source, error) {
	if f.fromFiles() {
		files := f.files
		files.ClientTrustDomains, files.Log = f.sentry.ClientTrustDomains, log
		return daprtls.FromFiles(files)
	}
	sentry := f.sentry
	sentry.Kubernetes, sentry.Log = f.inKubernetes(), log
	return daprtls.FromSentry(sentry)
}

// config returns the node's configuration. The flags are valid.
func (f *daprFlags) config(flags *pflag.FlagSet, log *slog.Logger) server.Config {
	c := f.own
	c.Log, c.Monitoring.Version, c.Store = log, thisBuild().Version, f.storeURL()
	c.GRPC, c.HTTP = f.nodesListen(), cmp.Or(c.HTTP, server.None)
	c.Advertise, c.Credentials = f.nodesReach(), f.credentials()
	if c.DrainGrace == 0 {
		c.DrainGrace = -1 // 0 is the default in a configuration
	}
	if f.store != "" {
		c.Name = f.id
	}
	c.AdvertiseSidecars = f.advertised()
	c.Sidecars = &server.Sidecars{Address: hostPort(f.listen, f.port)}
	if f.tools.listen != server.None {
		c.Monitoring.Tools = &server.Tools{Address: f.tools.address()}
	}
	c.Monitoring.Traces = tracesTo("")
	c.Monitoring.Healthz = hostPort(f.healthz.listen, f.healthz.port)
	if f.metrics {
		listen := f.listen // as Dapr 1.18 has it, whatever the default of the flag for metrics says
		if flags.Changed("metrics-listen-address") {
			listen = f.metricsListen
		}
		c.Monitoring.Metrics = hostPort(listen, f.metricsPort)
	}
	return c
}

// storeURL returns where jobs are kept: beside the files of Dapr's scheduler, so that both find their own.
func (f *daprFlags) storeURL() string {
	return cmp.Or(f.store, "pebble:"+filepath.Join(f.dataDir, "carillon"))
}

// hostPort returns an address to listen on. The host may be in brackets.
func hostPort(host string, port int) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
}

// logger returns the log that the flags ask for; end closes its file.
func (f *daprFlags) logger(w io.Writer) (log *slog.Logger, end func() error, err error) {
	end = func() error { return nil }
	if f.logFile != "" {
		file, err := os.OpenFile(f.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, nil, usagef("--log-file: %s", err)
		}
		w, end = file, file.Close
	}
	log = telemetry.NewLogger(w, f.logJSON, logLevels[f.logLevel.String()])
	// Whatever --log-level says.
	f.own.Audit.Log = telemetry.NewLogger(w, f.logJSON, slog.LevelInfo).With("id", f.id)
	telemetry.TakeStandardLog(log)
	return log.With("id", f.id), end, nil
}

// notices logs what the operator should know before the node is up.
func (f *daprFlags) notices(flags *pflag.FlagSet, log *slog.Logger) {
	if flags.Changed("etcd-initial-cluster") {
		log.Info("--etcd-initial-cluster makes no cluster here", "why", f.membersNotice())
	}
	for _, i := range idle {
		if flags.Changed(i.name) {
			log.Info("--"+i.name+" has no meaning here", "why", i.why)
		}
	}
	if !f.secure() && !server.OnLoopback(strings.Trim(f.listen, "[]")) {
		log.Warn("whoever reaches this port can read, change and receive all jobs: listen on 127.0.0.1, keep the network closed, "+
			"or give --tls-enabled", "port", f.port)
	}
	if f.tools.listen != server.None && !server.OnLoopback(strings.Trim(f.tools.listen, "[]")) {
		log.Warn("whoever reaches this port can read, change and delete all jobs, also with --tls-enabled: leave out --etcd-client-listen-address, "+
			"or keep the network closed", "port", f.tools.port)
	}
	if len(f.importFrom) == 0 {
		if found := etcdOf(f.dataDir); found != "" {
			log.Warn("jobs that Dapr's own scheduler keeps here come over with --import-from or carillon dapr import only",
				"folder", found)
		}
	}
}

// etcdOf returns where Dapr's scheduler has kept its jobs in the folder, if it has.
func etcdOf(dir string) string {
	// in Kubernetes, and elsewhere
	for _, pattern := range []string{"dapr-0.1", filepath.Join("*", "dapr-0.1")} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// validate refuses what cannot be done, all at once.
func (f *daprFlags) validate(flags *pflag.FlagSet) error {
	var faults []string
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	f.validateEtcd(wrong)
	for name, port := range map[string]int{"port": f.port, "healthz-port": f.healthz.port,
		"metrics-port": f.metricsPort, "etcd-client-port": int(min(f.tools.port, 1<<16))} {
		if port < 0 || port > 65535 {
			wrong("--%s: %d is not a port", name, port)
		}
	}
	if f.kubeconfig != "" && !f.inKubernetes() {
		wrong("--kubeconfig: it goes with --mode kubernetes only")
	}
	if !isHostPort(f.broadcast) {
		wrong("--override-broadcast-host-port: %q is not an address such as scheduler.example:50006", f.broadcast)
	}
	if len(f.sentry.ClientTrustDomains) > 0 && !f.secure() {
		wrong("--client-trust-domain: without --tls-enabled sidecars show no certificate")
	}
	if f.own.DrainGrace < 0 {
		wrong("--drain-grace: %v is negative; give 0 to let nothing go on", f.own.DrainGrace)
	}
	if len(faults) == 0 {
		if err := f.config(flags, nil).Validate(); err != nil {
			wrong("%s", err)
		}
	}
	return joinFaults(faults)
}

// isHostPort reports whether the text is empty or an address that sidecars can be told.
func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	return text == "" || err == nil && host != "" && port != ""
}

// validateEtcd refuses what only an etcd could do.
func (f *daprFlags) validateEtcd(wrong func(format string, args ...any)) {
	const external = "an external etcd is not supported yet: jobs are kept in a folder of this node, --etcd-data-dir, or in a database " +
		"that several nodes share, --store postgres://… or redis://…"
	if !f.etcdEmbed {
		wrong("--etcd-embed=false: %s", external)
	}
	if len(f.etcdEndpoints) > 0 {
		wrong("--etcd-client-endpoints: %s", external)
	}
	if f.etcdUsername != "" {
		wrong("--etcd-client-username: %s", external)
	}
	if f.etcdPassword != "" {
		wrong("--etcd-client-password: %s", external)
	}
	f.validateMembers(wrong)
}

// daprAPI returns Dapr's service for a node, with metrics under Dapr's names.
func daprAPI(o daprapi.Options) server.API {
	return func(n *server.Node, r grpc.ServiceRegistrar) (stop func()) {
		counted := o
		counted.Metrics = daprmetrics.New(n.Metrics(), n.LimitTallies)
		return daprapi.Serve(n, r, counted)
	}
}

// address returns the address to listen on. The port is valid.
func (t toolsDoor) address() string { return hostPort(t.listen, int(t.port)) }

// etcdOptions returns the options of the calls of etcd for a node's jobs.
func (f *daprFlags) etcdOptions(log *slog.Logger) etcdapi.Options {
	o := etcdapi.Options{ID: f.id, Logger: log}
	if f.tools.port != 0 {
		o.Address = f.tools.address()
	}
	return o
}

// etcdAPI returns these calls.
func etcdAPI(o etcdapi.Options) server.API {
	return func(n *server.Node, r grpc.ServiceRegistrar) (stop func()) { return etcdapi.Serve(n, r, o) }
}

// advertised returns the address that sidecars are told; empty: see [server.Config]. DAPR_HOST_IP tells
// Dapr's programs which of their addresses others can reach.
func (f *daprFlags) advertised() string {
	ip := os.Getenv("DAPR_HOST_IP")
	if f.broadcast != "" || ip == "" || f.port == 0 || server.OnLoopback(strings.Trim(f.listen, "[]")) {
		return f.broadcast
	}
	return net.JoinHostPort(ip, strconv.Itoa(f.port))
}
