package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/clienttls"
	"github.com/carillonhq/carillon/server/internal/daprmove"
	"github.com/carillonhq/carillon/server/internal/server"
)

// newDapr returns the command `carillon dapr`.
func newDapr(a app) *cobra.Command {
	return newGroup("dapr", "Move the jobs of Dapr's scheduler to a node, and back", newDaprImport(a),
		newDaprExport(a))
}

// etcdAccess holds the flags about a live etcd.
type etcdAccess struct{ etcdTLS clienttls.Options }

// The settings of a live etcd that come from the environment only, as flags.
const (
	etcdUsername = "etcd-username"
	etcdPassword = "etcd-password"
)

// etcdNames are what its flags of TLS are called in errors.
var etcdNames = clienttls.Names{CA: "--etcd-ca-file", Cert: "--etcd-cert-file", Key: "--etcd-key-file"}

func (e *etcdAccess) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.etcdTLS.CA, "etcd-ca-file", "",
		"`file` of the certificates that an etcd is verified against; default this machine's")
	cmd.Flags().StringVar(&e.etcdTLS.Cert, "etcd-cert-file", "", "`file` of a certificate to show to it")
	cmd.Flags().StringVar(&e.etcdTLS.Key, "etcd-key-file", "", "`file` of its private key")
}

// access reads the files, for what is at these places.
func (e *etcdAccess) access(places []string) (a daprmove.Access, err error) {
	if err := e.suits(places); err != nil {
		return a, err
	}
	a.Username, a.Password = os.Getenv(envName(etcdUsername)), os.Getenv(envName(etcdPassword))
	if !e.etcdTLS.Given() {
		return a, nil
	}
	if a.TLS, err = e.etcdTLS.Config(etcdNames); err != nil {
		return a, usagef("%s", err)
	}
	return a, nil
}

// suits refuses TLS where there is none, and addresses of which some have it: the client of etcd goes by the
// first, so a password could go in plain text. Errors do not show addresses, which may have one in them.
func (e *etcdAccess) suits(places []string) error {
	secure := slices.ContainsFunc(places, func(p string) bool { return strings.HasPrefix(p, "https://") })
	if secure && slices.ContainsFunc(places, func(p string) bool { return strings.HasPrefix(p, "http://") }) {
		return usagef("some addresses begin with https://, and others with http://: give those of one etcd, all alike")
	}
	var given []string
	for _, f := range []struct{ name, value string }{
		{etcdNames.CA, e.etcdTLS.CA}, {etcdNames.Cert, e.etcdTLS.Cert}, {etcdNames.Key, e.etcdTLS.Key}} {
		if f.value != "" {
			given = append(given, f.name)
		}
	}
	if len(given) > 0 && !secure {
		return usagef("%s: TLS is for an etcd at https://HOST:PORT, and none is given", strings.Join(given, ", "))
	}
	return nil
}

// daprImport holds the flags of `carillon dapr import`.
type daprImport struct {
	connection
	etcdAccess
	sentryFlags
	dry, running bool
}

// newDaprImport returns the command `carillon dapr import`.
func newDaprImport(a app) *cobra.Command {
	d := daprImport{sentryFlags: newSentryFlags()}
	cmd := &cobra.Command{
		Use:   "import SOURCE...",
		Short: "Bring in the jobs of Dapr's scheduler",
		Long: `Bring in the jobs of Dapr's scheduler: jobs of apps, reminders of actors and, by those, workflows in flight. Each goes on
where it was: it fires next at the time that was due, and missed times are made up for.

SOURCE is the data folder of a scheduler that is stopped (--etcd-data-dir), or several of them, of which the newest counts;
a file of dapr scheduler export; or the addresses of a live etcd, http://HOST:PORT or https://HOST:PORT, whose user and
password are in CARILLON_ETCD_USERNAME and CARILLON_ETCD_PASSWORD. Nothing there is changed.

Jobs come in paused, are compared, and are let go when all are there. The command may be ended at any moment and be run
again: no job comes in twice, and none that has ended since comes back. What cannot come in is named, the others do, and the
command fails. Run again, it tries those that were refused.

If the source has gone on since an import was cut off, the jobs which that one has put are removed first, unless some have
been let go: then it is ended, and the new state is refused.`,
		Example: `carillon dapr import /var/lib/dapr-scheduler
carillon dapr import --dry-run jobs.export
carillon dapr import --server 10.0.0.7:7070 https://etcd-0:2379 --etcd-ca-file ca.crt`,
		Args: arguments(1, 100),
		RunE: func(cmd *cobra.Command, sources []string) error { return d.run(cmd, a, sources) },
	}
	d.addServer(cmd)
	d.addIdentity(cmd)
	d.etcdAccess.add(cmd)
	cmd.Flags().BoolVar(&d.dry, "dry-run", false, "read and check the source only; no node is needed")
	cmd.Flags().BoolVar(&d.running, "while-running", false,
		"take an etcd on which Dapr's scheduler is at work: what fires after the moment of reading fires again here")
	return cmd
}

// daprReport is the result of an import or an export.
type daprReport struct {
	Source string           `json:"source"`
	There  daprmove.Digest  `json:"there"`
	Here   *daprmove.Digest `json:"here,omitempty"`
	Over   int              `json:"over"`
	Before bool             `json:"before,omitempty"`
	Faults []daprFault      `json:"faults,omitempty"`

	Left      int `json:"left_out,omitempty"`
	Unkept    int `json:"left_out_for_ever,omitempty"`
	Retried   int `json:"tried_again,omitempty"`
	TakenBack int `json:"taken_back,omitempty"`
}

type daprFault struct {
	Key   string `json:"key"`
	Error string `json:"error"`
}

func faultsOf(faults []daprmove.Fault) (list []daprFault) {
	for _, f := range faults {
		list = append(list, daprFault{f.Key, f.Err.Error()})
	}
	return list
}

// text returns the report for people.
func (r *daprReport) text() string {
	var b strings.Builder
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "left out: %s: %s\n", f.Key, f.Error)
	}
	if r.Over > 0 {
		fmt.Fprintf(&b, "%d jobs never fire again and were left out\n", r.Over)
	}
	if r.TakenBack > 0 {
		fmt.Fprintf(&b, "%d jobs of another state were taken back: its import was cut off\n", r.TakenBack)
	}
	switch {
	case r.Retried > 0:
		fmt.Fprintf(&b, "it was imported before; %d jobs that were refused then were tried again, %d are left out\n",
			r.Retried, r.Left)
	case r.Before:
		b.WriteString("it was imported before; nothing was done\n")
	}
	if r.Unkept > 0 {
		fmt.Fprintf(&b, "%d of the jobs that were left out are never tried again: they were too many to be kept\n",
			r.Unkept)
	}
	fmt.Fprintf(&b, "%s\nthere %s\n", r.Source, r.There)
	if r.Here != nil {
		fmt.Fprintf(&b, "here  %s\n", r.Here)
	}
	return b.String()
}

// show prints the report, and fails if not everything was moved.
func (r *daprReport) show(cmd *cobra.Command, a app) (err error) {
	if structured(cmd) {
		err = a.encode(cmd, r)
	} else {
		err = a.print(r.text())
	}
	switch {
	case err != nil:
		return err
	case r.Left > 0 || len(r.Faults) > 0:
		return fmt.Errorf("%d jobs were left out", max(r.Left, len(r.Faults)))
	case r.Here != nil && *r.Here != r.There:
		return errors.New("the two sides are not the same")
	}
	return nil
}

func (d *daprImport) run(cmd *cobra.Command, a app, sources []string) error {
	access, err := d.access(sources)
	if err != nil {
		return err
	}
	state, err := daprmove.Read(cmd.Context(), sources, access)
	switch {
	case err != nil:
		return err
	case len(state.Running) > 0 && !d.running && !d.dry:
		return fmt.Errorf("%w: %s; stop it and give its data folder, or give --while-running", daprmove.ErrRunning,
			strings.Join(state.Running, ", "))
	case d.dry:
		digest, err := daprmove.DigestOf(state.Records)
		if err != nil {
			return err
		}
		report := daprReport{Source: state.Origin, There: digest, Over: state.Over, Faults: faultsOf(state.Faults)}
		return report.show(cmd, a)
	}
	var report *daprmove.Report
	err = d.onNode(cmd, &d.sentryFlags, func(node *client.Client, told daprmove.Progress) (err error) {
		report, err = daprmove.Import(cmd.Context(), node, state, told)
		return err
	})
	if err != nil {
		return err
	}
	shown := daprReport{Source: report.Origin, There: report.Source, Here: &report.Here, Over: report.Over,
		Before: report.Before, Faults: faultsOf(report.Faults), Left: report.Left, Unkept: report.Unkept,
		Retried: report.Retried, TakenBack: report.TakenBack}
	return shown.show(cmd, a)
}

// onNode calls f with a node that has answered once; f may take as long as it likes.
func (c *connection) onNode(cmd *cobra.Command, s *sentryFlags,
	f func(*client.Client, daprmove.Progress) error) error {
	end, err := s.identify(cmd, c)
	if err != nil {
		return err
	}
	defer end()
	err = c.call(cmd, func(ctx context.Context, node *client.Client) error {
		_, err := node.GetNamespace(ctx, carillon.DefaultNamespace)
		return err
	})
	if err != nil {
		return err
	}
	node, err := c.dial()
	if err != nil {
		return err
	}
	defer node.Close()
	p := newProgress(cmd.ErrOrStderr())
	defer p.clear()
	return c.explain(f(node, func(stage string, done, total int) { p.show(stage, int64(done), int64(total)) }))
}

// arrival brings jobs in before the node admits sidecars.
type arrival struct {
	state *daprmove.State
	log   *slog.Logger
	in    atomic.Bool
	stage atomic.Pointer[string] // what it does, or waits for
}

// importFirst runs a node until ctx ends. Sidecars are admitted when the jobs of the sources are in.
func importFirst(ctx context.Context, c server.Config, sources []string) error {
	access, err := new(etcdAccess).access(sources)
	if err != nil {
		return usagef("--import-from: %s", err)
	}
	state, err := daprmove.Read(ctx, sources, access)
	if err != nil {
		return fmt.Errorf("--import-from: %w", err)
	}
	if len(state.Running) > 0 {
		return fmt.Errorf("--import-from: %w: %s; stop it first", daprmove.ErrRunning, strings.Join(state.Running, ", "))
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	arriving := &arrival{state: state, log: c.Log}
	arriving.guard(c.Sidecars, end)
	err = runNode(ctx, c)
	if cause := context.Cause(ctx); errors.Is(cause, errNoImport) {
		err = errors.Join(err, cause)
	}
	return err
}

// errNoImport is the cause of the end of a node that cannot bring the jobs in.
var errNoImport = errors.New("--import-from")

// guard has the listener for sidecars refuse calls until the jobs are in; end ends the node.
func (r *arrival) guard(s *server.Sidecars, end context.CancelCauseFunc) {
	api := s.API
	s.Busy = r.admitted
	s.Options = append(s.Options,
		grpc.ChainUnaryInterceptor(func(ctx context.Context, m any, _ *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (any, error) {
			if err := r.admitted(); err != nil {
				return nil, status.Error(codes.Unavailable, err.Error())
			}
			return next(ctx, m)
		}),
		grpc.ChainStreamInterceptor(func(s any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
			next grpc.StreamHandler) error {
			if err := r.admitted(); err != nil {
				return status.Error(codes.Unavailable, err.Error())
			}
			return next(s, stream)
		}))
	s.API = func(n *server.Node, to grpc.ServiceRegistrar) (stop func()) {
		endAPI := api(n, to)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := r.bring(ctx, n.Remote()); err != nil && ctx.Err() == nil {
				end(fmt.Errorf("%w: %w", errNoImport, err))
			}
		}()
		return func() {
			cancel()
			<-ended
			endAPI()
		}
	}
}

// admitted returns nil if sidecars are admitted, otherwise why not: they must not miss jobs that are to come.
func (r *arrival) admitted() error {
	if r.in.Load() {
		return nil
	}
	stage := "beginning"
	if told := r.stage.Load(); told != nil {
		stage = *told
	}
	return fmt.Errorf("jobs of Dapr's scheduler are coming in: %s", stage)
}

// bring imports the jobs, or waits until another node or command has imported theirs. What cannot come in is
// in the log.
func (r *arrival) bring(ctx context.Context, jobs carillon.Jobs) error {
	report, err := r.ended(ctx, jobs)
	if errors.Is(err, daprmove.ErrOtherState) { // such as that of a member that was behind
		r.log.Error("jobs of Dapr's scheduler did not come in", "source", r.state.Origin, "error", err)
		r.in.Store(true)
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range report.Faults {
		r.log.Error("a job of Dapr's scheduler did not come in", "key", f.Key, "error", f.Err)
	}
	if report.Unkept > 0 {
		r.log.Error("jobs of Dapr's scheduler did not come in and are never tried again: they were too many to be kept",
			"jobs", report.Unkept)
	}
	r.log.Info("jobs of Dapr's scheduler are in", "source", report.Origin, "before", report.Before, "there",
		report.Source.String(), "here", report.Here.String(), "never fire again", report.Over,
		"left out", report.Left, "tried again", report.Retried, "taken back", report.TakenBack)
	r.in.Store(true)
	return nil
}

// ended makes the import until it or another one has ended.
func (r *arrival) ended(ctx context.Context, jobs carillon.Jobs) (*daprmove.Report, error) {
	for {
		report, err := daprmove.Import(ctx, jobs, r.state, r.tell)
		if !errors.Is(err, daprmove.ErrLost) {
			return report, err
		}
		r.log.Warn("the import goes on elsewhere", "source", r.state.Origin, "error", err)
	}
}

// tell notes how far the import is, and has the log say for whom it waits.
func (r *arrival) tell(stage string, _, _ int) {
	if before := r.stage.Swap(&stage); before == nil || *before != stage {
		r.log.Info("jobs of Dapr's scheduler are coming in", "now", stage)
	}
}
