//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	carillonpb "github.com/carillonhq/carillon/api/carillon/v1"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprtls"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// pathFrom is the path that a variable gives; without it the test is skipped.
func pathFrom(t *testing.T, variable, of string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set: it takes the path of %s", variable, of)
	}
	return path
}

// pod is what Kubernetes makes of the chart: one of the three schedulers.
type pod struct {
	id, ip, image string
	program       string   // the command, without its folder
	args          []string // of the command, as the container gets them
	env           map[string]string
	mounts        map[string]string // where the Secrets are mounted, by their names
}

// statefulSet is what the test looks at of the chart's.
type statefulSet struct {
	Kind string
	Spec struct {
		Replicas int
		Template struct {
			Spec struct {
				Containers []struct {
					Name, Image   string
					Command, Args []string
					Env           []struct {
						Name, Value string
						ValueFrom   struct {
							FieldRef struct {
								FieldPath string `yaml:"fieldPath"`
							} `yaml:"fieldRef"`
						} `yaml:"valueFrom"`
					}
					VolumeMounts []volumeMount `yaml:"volumeMounts"`
				}
				Volumes []volume
			}
		}
	}
}

// volumeMount and volume say which Secrets a container finds where.
type volumeMount struct {
	Name      string
	MountPath string `yaml:"mountPath"`
}

type volume struct {
	Name   string
	Secret struct {
		SecretName string `yaml:"secretName"`
	}
}

const daprNamespace = "dapr-system"

// chartPods renders Dapr's chart with deploy/dapr/values.yaml.
func chartPods(t *testing.T) []pod {
	t.Helper()
	helmBinary := pathFrom(t, "CARILLON_TEST_HELM", "the program helm")
	chart := pathFrom(t, "CARILLON_TEST_DAPR_CHART", "the folder of Dapr's chart, charts/dapr of its source")
	cmd := exec.Command(helmBinary, "template", "dapr", chart, "--namespace", daprNamespace, "--values",
		deploy+"dapr/values.yaml", "--show-only", "charts/dapr_scheduler/templates/dapr_scheduler_statefulset.yaml")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	text, err := cmd.Output()
	if err != nil {
		exit, _ := errors.AsType[*exec.ExitError](err)
		t.Fatalf("helm: %v %s", err, exit.Stderr)
	}
	var set statefulSet
	if err := yaml.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	if set.Kind != "StatefulSet" || set.Spec.Replicas != 3 || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("the chart is not as it was: %+v", set)
	}
	subnet := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250))
	pods := make([]pod, set.Spec.Replicas)
	for i := range pods {
		pods[i] = set.pod(fmt.Sprint("dapr-scheduler-server-", i), subnet+strconv.Itoa(i+1))
	}
	return pods
}

// pod is one of the set, as Kubernetes would start it.
func (s *statefulSet) pod(id, ip string) pod {
	spec := s.Spec.Template.Spec
	c := spec.Containers[0]
	p := pod{id: id, ip: ip, image: c.Image, env: map[string]string{}, mounts: map[string]string{}}
	for _, e := range c.Env {
		value := e.Value
		if field := e.ValueFrom.FieldRef.FieldPath; field != "" {
			value = map[string]string{"metadata.name": id, "metadata.namespace": daprNamespace, "status.podIP": ip}[field]
		}
		p.env[e.Name] = value
	}
	p.program = strings.TrimPrefix(strings.Join(c.Command, " "), "/")
	for _, a := range c.Args {
		for name, value := range p.env {
			a = strings.ReplaceAll(a, "$("+name+")", value)
		}
		p.args = append(p.args, a)
	}
	for _, v := range spec.Volumes {
		for _, m := range c.VolumeMounts {
			if m.Name == v.Name && v.Secret.SecretName != "" {
				p.mounts[v.Secret.SecretName] = m.MountPath
			}
		}
	}
	return p
}

// withSecret replaces where the Secret is mounted by a folder that has it.
func (p *pod) withSecret(t *testing.T, file, text string) {
	t.Helper()
	at, ok := p.mounts["carillon"]
	if !ok {
		t.Fatalf("no Secret is mounted: %v", p.mounts)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range p.env {
		p.env[name] = strings.Replace(value, at+"/", dir+"/", 1)
	}
}

// TestDaprsChart: what the chart runs is taken, is three nodes of one cluster, and no other image is pulled.
func TestDaprsChart(t *testing.T) {
	names := map[string]bool{}
	for _, p := range chartPods(t) {
		if p.program != daprProgram || !strings.Contains(p.image, "/carillon") {
			t.Errorf("%s of image %s", p.program, p.image)
		}
		p.withSecret(t, "carillon.yaml", `store: "postgres://carillon:secret@db/jobs"`)
		for name, value := range p.env {
			t.Setenv(name, value)
		}
		f, flags := daprLine(t, p.args...)
		if err := settings(f.settings, "", "", nil); err != nil {
			t.Fatal(err)
		}
		if err := f.validate(flags); err != nil {
			t.Fatal(err)
		}
		c := f.config(flags, slog.New(slog.DiscardHandler))
		names[c.Name] = true
		if c.Store != "postgres://carillon:secret@db/jobs" || c.Advertise != p.ip || c.GRPC != "0.0.0.0:7070" ||
			c.Credentials == nil || c.Insecure || c.Sidecars.Address != "0.0.0.0:50006" || c.Monitoring.Healthz != ":8080" {
			t.Errorf("%s: %+v", p.id, c)
		}
	}
	if len(names) != 3 {
		t.Errorf("nodes %v", names)
	}
}

// sentry starts the sentry of Dapr, which signs for whoever asks. The options are those of a scheduler.
func sentry(t *testing.T) daprtls.Sentry {
	t.Helper()
	binary := pathFrom(t, "CARILLON_DAPR_SENTRY", "the program sentry of Dapr 1.18")
	dir, issuer := t.TempDir(), t.TempDir() // it starts again with each change in the issuer's folder
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: dapr.io/v1alpha1\nkind: Configuration\nmetadata: {name: sentry}\n"+
		"spec: {mtls: {enabled: true, workloadCertTTL: 1h, allowedClockSkew: 1m}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port, healthPort := strconv.Itoa(realserver.Port(t)), strconv.Itoa(realserver.Port(t))
	realserver.Start(t, realserver.Program{Path: binary, Env: []string{"NAMESPACE=" + daprNamespace},
		Args: []string{"--issuer-credentials=" + issuer, "--trust-domain=cluster.local", "--config=" + config,
			"--listen-address=127.0.0.1", "--port=" + port, "--healthz-listen-address=127.0.0.1",
			"--healthz-port=" + healthPort, "--enable-metrics=false"}})
	return daprtls.Sentry{Address: "127.0.0.1:" + port, TrustDomain: "cluster.local", Namespace: daprNamespace,
		TrustAnchorsFile: filepath.Join(issuer, "ca.crt"), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// start runs the pod's command by a link of its name. What is a matter of the network of pods is given once more: all
// pods are on this machine, at different addresses of its loopback interface, and names of services mean nothing.
func (p *pod) start(t *testing.T, link string, o daprtls.Sentry) *realserver.Process {
	t.Helper()
	env := []string{"CARILLON_DAPR_SENTRY="} // the test's; no setting
	for _, name := range slices.Sorted(maps.Keys(p.env)) {
		env = append(env, name+"="+p.env[name])
	}
	return realserver.Start(t, realserver.Program{Path: link, Env: env, Folder: t.TempDir(), End: syscall.SIGTERM,
		Args: append(slices.Clone(p.args), "--listen-address="+p.ip, "--healthz-listen-address="+p.ip,
			"--etcd-client-listen-address="+p.ip, "--trust-anchors-file="+o.TrustAnchorsFile, "--sentry-address="+o.Address)})
}

// TestThePodsOfDaprsChartAreACluster starts the very command lines of the chart's pods on one PostgreSQL, under Dapr's
// sentry: they are ready, know each other by certificates alone, serve each other's jobs, and leave in order.
func TestThePodsOfDaprsChartAreACluster(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a loopback interface of many addresses")
	}
	pods, o := chartPods(t), sentry(t)
	database := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	database = strings.Replace(database, "postgres@", "postgres:hunter2@", 1)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), pods[0].program)
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	var running []*realserver.Process
	for _, p := range pods {
		p.withSecret(t, "carillon.yaml", "store: "+strconv.Quote(database)+"\n")
		running = append(running, p.start(t, link, o))
	}
	for i, p := range pods {
		running[i].Ready(t, func(ctx context.Context) error { return healthy(ctx, "http://"+p.ip+":8080/healthz") })
	}
	identity, err := daprtls.FromSentry(o)
	if err != nil {
		t.Fatal(err)
	}
	defer identity.Close()
	running[0].Ready(t, func(context.Context) error { return identity.Ready() })
	running[0].Ready(t, func(ctx context.Context) error { return allOwn(ctx, identity, pods) })
	for i, p := range pods {
		told, err := hostsOf(t.Context(), identity, p)
		if err != nil || !slices.Equal(told, sidecarsOf(pods)) {
			t.Errorf("%s tells sidecars %v, %v", p.id, told, err)
		}
		if err := scheduleAndSee(t.Context(), identity, p, pods[(i+1)%len(pods)]); err != nil {
			t.Errorf("a job through %s: %v", p.id, err)
		}
		conn := dialNode(t, p.ip+":7070", grpc.WithTransportCredentials(insecure.NewCredentials()))
		if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err == nil {
			t.Errorf("%s answers the other nodes' calls to anybody", p.id)
		}
	}
	for i, p := range running {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("%s: %v", pods[i].id, err)
		}
		if log := p.Log(); !strings.Contains(log, "node has left") || strings.Contains(log, "hunter2") {
			t.Errorf("%s: the log has the password, or no end:\n%s", pods[i].id, log)
		}
	}
}

// healthy asks /healthz as a probe does.
func healthy(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(res.Status))
	}
	return errors.Join(err, res.Body.Close())
}

func dialNode(t *testing.T, address string, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// allOwn asks the first pod whether all are members, at their addresses, and own partitions.
func allOwn(ctx context.Context, identity *daprtls.Source, pods []pod) error {
	conn, err := grpc.NewClient(pods[0].ip+":7070", identity.NodeDialOptions()...)
	if err != nil {
		return err
	}
	defer conn.Close()
	status, err := carillonpb.NewClusterServiceClient(conn).GetCluster(ctx, &carillonpb.GetClusterRequest{})
	if err != nil {
		return err
	}
	owns := map[string]bool{}
	for _, n := range status.GetNodes() {
		owns[n.GetId()+" "+n.GetAddress()] = n.GetOwns() > 0
	}
	for _, p := range pods {
		if !owns[p.id+" "+net.JoinHostPort(p.ip, "7070")] {
			return fmt.Errorf("%s owns nothing at %s: %v", p.id, p.ip, owns)
		}
	}
	return nil
}

// sidecarsOf are the addresses that sidecars connect to.
func sidecarsOf(pods []pod) []string {
	var all []string
	for _, p := range pods {
		all = append(all, p.ip+":50006")
	}
	slices.Sort(all)
	return all
}

// hostsOf are the addresses that a pod tells a sidecar.
func hostsOf(ctx context.Context, identity *daprtls.Source, p pod) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(p.ip+":50006", identity.NodeDialOptions()...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stream, err := pb.NewSchedulerClient(conn).WatchHosts(ctx, &pb.WatchHostsRequest{})
	if err != nil {
		return nil, err
	}
	told, err := stream.Recv()
	var all []string
	for _, h := range told.GetHosts() {
		all = append(all, h.GetAddress())
	}
	slices.Sort(all)
	return all, err
}

// scheduleAndSee schedules jobs through one pod, in partitions of all, and sees them through another.
func scheduleAndSee(ctx context.Context, identity *daprtls.Source, through, other pod) error {
	metadata := ofApp()
	metadata.Namespace, metadata.AppId = daprNamespace, daprtls.AppID // whom the certificate names
	due := "1h"
	for n := range 24 {
		name := fmt.Sprintf("%s-%d", through.id, n)
		for _, call := range []struct {
			at pod
			do func(c pb.SchedulerClient) error
		}{
			{through, func(c pb.SchedulerClient) error {
				_, err := c.ScheduleJob(ctx, &pb.ScheduleJobRequest{Name: name, Metadata: metadata, Job: &pb.Job{DueTime: &due}})
				return err
			}},
			{other, func(c pb.SchedulerClient) error {
				_, err := c.GetJob(ctx, &pb.GetJobRequest{Name: name, Metadata: metadata})
				return err
			}},
		} {
			conn, err := grpc.NewClient(call.at.ip+":50006", identity.NodeDialOptions()...)
			if err != nil {
				return err
			}
			if err := errors.Join(call.do(pb.NewSchedulerClient(conn)), conn.Close()); err != nil {
				return fmt.Errorf("%s at %s: %w", name, call.at.id, err)
			}
		}
	}
	return nil
}
