package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/daprtls"
	"github.com/carillonhq/carillon/server/internal/server"
)

// flagsOfDapr are all flags of the scheduler of Dapr 1.18.3, as its --help shows them: type and default.
// Types that differ here take the same texts.
var flagsOfDapr = map[string][2]string{
	"enable-metrics":              {"bool", "true"},
	"etcd-backend-batch-interval": {"string", "100ms"},
	"etcd-backend-batch-limit":    {"int", "10000"},
	"etcd-client-endpoints":       {"stringSlice", "[]"},
	"etcd-client-listen-address":  {"string", "localhost"},
	"etcd-client-password":        {"string", ""},
	"etcd-client-port":            {"uint64", "2379"},
	"etcd-client-username":        {"string", ""},
	"etcd-compaction-mode":        {"string", "revision"},
	"etcd-compaction-retention":   {"string", "1000000"},
	"etcd-data-dir":               {"string", "./data"},
	"etcd-embed":                  {"bool", "true"},
	"etcd-experimental-bootstrap-defrag-threshold-megabytes": {"uint", "100"},
	"etcd-initial-cluster":               {"stringSlice", "[dapr-scheduler-server-0=http://localhost:2380]"},
	"etcd-initial-election-tick-advance": {"bool", "false"},
	"etcd-max-snapshots":                 {"uint", "10"},
	"etcd-max-txn-ops":                   {"uint", "10000"},
	"etcd-max-wals":                      {"uint", "10"},
	"etcd-metrics":                       {"string", "basic"},
	"etcd-snapshot-count":                {"uint64", "100000"},
	"etcd-space-quota":                   {"string", "9.2E"},
	"healthz-listen-address":             {"string", ""},
	"healthz-port":                       {"int", "8080"},
	"id":                                 {"string", "dapr-scheduler-server-0"},
	"identity-directory-write":           {"string", ""}, // Dapr needs the files for its etcd
	"kubeconfig":                         {"string", ""},
	"listen-address":                     {"string", ""},
	"log-as-json":                        {"bool", "false"},
	"log-file":                           {"string", ""},
	"log-level":                          {"info|debug|warn|error|fatal", "info"},
	"metrics-listen-address":             {"string", "0.0.0.0"},
	"metrics-port":                       {"int", "9090"},
	"mode":                               {"standalone|kubernetes", "standalone"},
	"override-broadcast-host-port":       {"string", ""},
	"port":                               {"int", "50006"},
	"sentry-address":                     {"string", ""}, // the default depends on the environment
	"tls-enabled":                        {"bool", "false"},
	"trust-anchors-file":                 {"string", "/var/run/secrets/dapr.io/tls/ca.crt"},
	"trust-domain":                       {"string", "localhost"},
	"workers":                            {"uint32", "2048"},
}

func TestEveryFlagOfDaprsScheduler(t *testing.T) {
	_, flags := daprLine(t)
	for name, want := range flagsOfDapr {
		f := flags.Lookup(name)
		if f == nil {
			t.Errorf("--%s is not taken", name)
			continue
		}
		if f.Value.Type() != want[0] || f.DefValue != want[1] {
			t.Errorf("--%s is of type %s, default %q; want %s, %q", name, f.Value.Type(), f.DefValue, want[0], want[1])
		}
	}
}

// TestOnlyOwnFlagsAreSettings: what Dapr's scheduler has comes from the command line, all else from the environment, too.
func TestOnlyOwnFlagsAreSettings(t *testing.T) {
	f, flags := daprLine(t, "--drain-grace=7s", "--id=s-1")
	flags.VisitAll(func(flag *pflag.Flag) {
		_, ofDapr := flagsOfDapr[flag.Name]
		if own := f.settings.Lookup(flag.Name) != nil; own == ofDapr {
			t.Errorf("--%s: of Dapr %v, a setting %v", flag.Name, ofDapr, own)
		}
	})
	for name, value := range map[string]string{"CARILLON_STORE": "redis://h", "CARILLON_GRPC_LISTEN": "127.0.0.1:7",
		"CARILLON_DRAIN_GRACE": "1s", "CARILLON_MAX_PAYLOAD": "99", "CARILLON_ID": "s-2", "CARILLON_METRICS_PORT": "1",
		"CARILLON_PORT": "tcp://10.0.0.1:50006"} {
		t.Setenv(name, value)
	}
	if err := settings(f.settings, "", "", nil); err != nil {
		t.Fatal(err)
	}
	c := f.config(flags, nil)
	if c.Store != "redis://h" || c.GRPC != "127.0.0.1:7" || c.DrainGrace != 7*time.Second || c.Limits.Payload != 99 ||
		c.Name != "s-1" || c.Sidecars.Address != ":50006" || c.Monitoring.Metrics != ":9090" {
		t.Errorf("%+v", c)
	}
}

// daprLine parses a command line of carillon dapr-scheduler.
func daprLine(t *testing.T, line ...string) (*daprFlags, *pflag.FlagSet) {
	t.Helper()
	f, flags := newDaprFlags(), pflag.NewFlagSet("dapr-scheduler", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	f.add(flags)
	if err := flags.Parse(line); err != nil {
		t.Fatal(err)
	}
	return f, flags
}

// helm is the command line that Dapr's chart gives, but for the cluster's members.
var helm = []string{
	"--listen-address=0.0.0.0", "--id", "dapr-scheduler-server-0", "--etcd-initial-cluster",
	"dapr-scheduler-server-0=https://dapr-scheduler-server-0.dapr-scheduler-server.dapr-system.svc.cluster.local:2380",
	"--etcd-embed=true", "--log-level", "info", "--log-as-json", "--enable-metrics", "--metrics-port", "9090",
	"--etcd-client-port", "2379", "--etcd-space-quota=9.2E",
	"--etcd-data-dir=/var/run/data/dapr-scheduler/dapr-system/dapr-scheduler-server-0",
	"--etcd-compaction-mode=revision", "--etcd-compaction-retention=1000000", "--etcd-snapshot-count=100000",
	"--etcd-max-snapshots=10", "--etcd-max-wals=10", "--etcd-backend-batch-limit=10000",
	"--etcd-backend-batch-interval=100ms", "--etcd-max-txn-ops=10000",
	"--etcd-experimental-bootstrap-defrag-threshold-megabytes=100", "--etcd-initial-election-tick-advance=false",
	"--etcd-metrics=basic", "--tls-enabled", "--trust-domain=cluster.local",
	"--trust-anchors-file=/var/run/secrets/dapr.io/tls/ca.crt",
	"--sentry-address=dapr-sentry.dapr-system.svc.cluster.local:443", "--mode=kubernetes", "--workers=2048",
}

func TestWhatHelmGives(t *testing.T) {
	f, flags := daprLine(t, helm...)
	if err := f.validate(flags); err != nil {
		t.Fatal(err)
	}
	c := f.config(flags, nil)
	want := "pebble:" + filepath.FromSlash("/var/run/data/dapr-scheduler/dapr-system/dapr-scheduler-server-0/carillon")
	if c.Store != want || c.Sidecars.Address != "0.0.0.0:50006" || c.Monitoring.Healthz != ":8080" ||
		c.Monitoring.Metrics != "0.0.0.0:9090" {
		t.Errorf("store %s, sidecars %s, healthz %s, metrics %s", c.Store, c.Sidecars.Address,
			c.Monitoring.Healthz, c.Monitoring.Metrics)
	}
	if c.Monitoring.Tools.Address != "localhost:2379" {
		t.Errorf("tools at %s", c.Monitoring.Tools.Address)
	}
	if c.GRPC != server.None || c.HTTP != server.None || !f.secure() {
		t.Errorf("grpc %s, http %s, secure %v", c.GRPC, c.HTTP, f.secure())
	}
	if f.sentry.Address != "dapr-sentry.dapr-system.svc.cluster.local:443" ||
		f.sentry.TrustDomain != "cluster.local" {
		t.Errorf("sentry: %+v", f.sentry)
	}
}

// TestNotices: each idle flag that is given has a line of its own, and none that is not.
func TestNotices(t *testing.T) {
	notices := func(line ...string) string {
		var b bytes.Buffer
		f, flags := daprLine(t, line...)
		f.notices(flags, slog.New(slog.NewTextHandler(&b, nil)))
		return b.String()
	}
	data := t.TempDir()
	if got := notices("--listen-address", "127.0.0.1", "--etcd-data-dir", data); got != "" {
		t.Errorf("without idle flags: %s", got)
	}
	got := notices(append(helm, "--etcd-client-listen-address=localhost")...)
	for _, i := range idle {
		if n := strings.Count(got, "--"+i.name+" has no meaning here"); n != 1 {
			t.Errorf("--%s: %d lines", i.name, n)
		}
	}
	if n := strings.Count(got, "\n"); n != len(idle)+1 || !strings.Contains(got, "one node is its own cluster") {
		t.Errorf("%d lines:\n%s", n, got)
	}
	for line, open := range map[string]bool{"": true, "0.0.0.0": true, "10.1.2.3": true, "127.0.0.1": false,
		"::1": false, "[::1]": false, "localhost": false} {
		if got := notices("--listen-address", line, "--etcd-data-dir", data); strings.Contains(got,
			"can read, change and receive all jobs") != open {
			t.Errorf("listening at %q: %q", line, got)
		}
	}
	for line, open := range map[string]bool{"localhost": false, "[::1]": false, "none": false, "": true, "0.0.0.0": true} {
		if got := notices("--tls-enabled", "--etcd-client-listen-address", line, "--etcd-data-dir", data); strings.Contains(got,
			"can read, change and delete all jobs, also with --tls-enabled") != open {
			t.Errorf("tools at %q: %q", line, got)
		}
	}
	if got := notices("--tls-enabled", "--etcd-data-dir", data); got != "" {
		t.Errorf("with TLS: %s", got)
	}
	if err := os.MkdirAll(filepath.Join(data, "default-x", "dapr-0.1", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := notices("--listen-address", "127.0.0.1", "--etcd-data-dir",
		data); !strings.Contains(got, "come over with --import-from") {
		t.Errorf("with a folder of etcd: %q", got)
	}
}

func TestRefusals(t *testing.T) {
	for line, want := range map[string]string{
		"--etcd-embed=false --etcd-client-endpoints=a:1,b:2": "--etcd-client-endpoints: an external etcd is not supported yet",
		"--etcd-embed=false":                               "--etcd-embed=false: an external etcd is not supported yet",
		"--etcd-client-endpoints=a:1":                      "--etcd-client-endpoints: ",
		"--etcd-client-username=u":                         "--etcd-client-username: ",
		"--etcd-client-password=p":                         "--etcd-client-password: ",
		"--etcd-initial-cluster=a=http://a:1,b=http://b:1": "Give all of them one store: postgres://… or redis://… as CARILLON_STORE",
		"--kubeconfig=k":                                   "--kubeconfig: it goes with --mode kubernetes only",
		"--kubeconfig=k --mode=standalone":                 "--kubeconfig: ",
		"--port=70000":                                     "--port: 70000 is not a port",
		"--healthz-port=-1":                                "--healthz-port: -1 is not a port",
		"--metrics-port=65536":                             "--metrics-port: 65536",
		"--etcd-client-port=65536":                         "--etcd-client-port: 65536 is not a port",
		"--etcd-client-port=18446744073709551615":          "--etcd-client-port: ",
		"--override-broadcast-host-port=nowhere":           "--override-broadcast-host-port: ",
		"--client-trust-domain=a":                          "--client-trust-domain: without --tls-enabled",
		"--drain-grace=-1s":                                "--drain-grace: -1s is negative",
		"--store=redis://h":                                "grpc: there is none, and the nodes of a store talk to each other there",
		"--advertise=0.0.0.0":                              "advertise: 0.0.0.0 is no address at which others reach",
		"--store=mongodb:x":                                `store: "mongodb" is not supported`,
		"--grpc-listen=0.0.0.0:1":                          "grpc: 0.0.0.0:1 is reachable from other machines",
		"--http-listen=0.0.0.0:1":                          "http: 0.0.0.0:1 is reachable from other machines",
	} {
		f, flags := daprLine(t, strings.Fields(line)...)
		if err := f.validate(flags); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for _, line := range []string{"", "--kubeconfig=k --mode=kubernetes", "--insecure --grpc-listen=0.0.0.0:1",
		"--store=memory:", "--etcd-initial-cluster=a=http://a:1", "--override-broadcast-host-port=[::1]:5",
		"--listen-address=[::1]", "--drain-grace=0"} {
		f, flags := daprLine(t, strings.Fields(line)...)
		if err := f.validate(flags); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestANodeOfACluster: it is known by its id, and found where the flags say.
func TestANodeOfACluster(t *testing.T) {
	f, flags := daprLine(t, "--id=s-1", "--store=postgres://db/jobs", "--grpc-listen=0.0.0.0:7070",
		"--advertise=10.0.0.7", "--insecure")
	if err := f.validate(flags); err != nil {
		t.Fatal(err)
	}
	if c := f.config(flags, nil); c.Name != "s-1" || c.Store != "postgres://db/jobs" ||
		c.Advertise != "10.0.0.7" {
		t.Errorf("name %q, store %q, advertise %q", c.Name, c.Store, c.Advertise)
	}
	f, flags = daprLine(t, "--id=s-1")
	if c := f.config(flags, nil); c.Name != "" {
		t.Errorf("on a folder it is called %q", c.Name)
	}
}

// TestWhereMetricsAre: as in Dapr 1.18, at the address for sidecars unless another one is given.
func TestWhereMetricsAre(t *testing.T) {
	for line, want := range map[string]string{
		"":                           ":9090",
		"--listen-address=127.0.0.1": "127.0.0.1:9090",
		"--listen-address=127.0.0.1 --metrics-listen-address=0.0.0.0 --metrics-port=1": "0.0.0.0:1",
		"--enable-metrics=false": "",
	} {
		f, flags := daprLine(t, strings.Fields(line)...)
		if got := f.config(flags, nil).Monitoring.Metrics; got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestLevelsInCapitals: Dapr's programs take them.
func TestLevelsInCapitals(t *testing.T) {
	for _, level := range []string{"DEBUG", "debug", "Debug"} {
		if f, _ := daprLine(t, "--log-level", level); f.logLevel.String() != "debug" {
			t.Errorf("%s became %q", level, f.logLevel.String())
		}
	}
}

// TestWhatSidecarsAreTold: what the flags or the environment say, otherwise nothing but where they have
// reached the node.
func TestWhatSidecarsAreTold(t *testing.T) {
	told := func(line string) string {
		f, flags := daprLine(t, strings.Fields(line)...)
		return f.config(flags, nil).AdvertiseSidecars
	}
	t.Setenv("DAPR_HOST_IP", "")
	for line, want := range map[string]string{"": "", "--listen-address=10.0.0.1": "",
		"--override-broadcast-host-port=a:1": "a:1"} {
		if got := told(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	t.Setenv("DAPR_HOST_IP", "10.1.2.3")
	for line, want := range map[string]string{"": "10.1.2.3:50006", "--port=5": "10.1.2.3:5", "--port=0": "",
		"--listen-address=127.0.0.1":         "",
		"--override-broadcast-host-port=a:1": "a:1"} {
		if got := told(line); got != want {
			t.Errorf("with an address in the environment, %s: %q, want %q", line, got, want)
		}
	}
}

func TestAnIdentityIsAskedForAsTheFlagsSay(t *testing.T) {
	for line, secure := range map[string]bool{"": false, "--tls-enabled": true, "--mode=kubernetes": true,
		"--tls-cert-file=c": true, "--tls-key-file=k": true,
		"--tls-ca-file=a": true} {
		f, _ := daprLine(t, strings.Fields(line)...)
		if f.secure() != secure {
			t.Errorf("%s: secure is %v", line, !secure)
		}
	}
	f, _ := daprLine(t, "--tls-cert-file=c")
	if _, err := f.identity(slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "tls_key_file") {
		t.Errorf("a certificate without a key: %v", err)
	}
	f, _ = daprLine(t, "--tls-enabled")
	if f.sentry.TrustDomain != daprtls.DefaultTrustDomain {
		t.Errorf("trust domain %q", f.sentry.TrustDomain)
	}
}
