//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

// The chart of deploy/helm: what it makes a node's settings of is what a node takes, and values that would make
// nothing of them are refused. .ci/run deploy gives these tests a helm, and reads the rest with Kubernetes' types.

const chart = deploy + "helm/carillon"

// template renders the chart as a release called carillon in the namespace jobs.
func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(pathFrom(t, "CARILLON_TEST_HELM", "the program helm"),
		append([]string{"template", "carillon", chart, "--namespace", "jobs"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		err = errors.New(faults.String())
	}
	return string(out), err
}

// nodes is what the test looks at of the chart's Deployment or StatefulSet.
type nodes struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Replicas int
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					container `yaml:",inline"`

					Image        string
					VolumeMounts []volumeMount `yaml:"volumeMounts"`
				}
				Volumes []volume
			}
		}
	}
}

// rendered returns the nodes of the chart with values.
func rendered(t *testing.T, args ...string) nodes {
	t.Helper()
	text, err := template(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader([]byte(text))); ; {
		var n nodes
		if err := d.Decode(&n); errors.Is(err, io.EOF) {
			t.Fatal("there is no Deployment and no StatefulSet")
		} else if err != nil {
			t.Fatal(err)
		}
		if n.Kind == "Deployment" || n.Kind == "StatefulSet" {
			if len(n.Spec.Template.Spec.Containers) != 1 {
				t.Fatalf("%d containers", len(n.Spec.Template.Spec.Containers))
			}
			return n
		}
	}
}

// secretKeys is what the Secrets of the examples have for variables.
var secretKeys = map[string]string{
	"carillon-store/url": "postgres://carillon@db/jobs?sslmode=verify-full", "carillon-store/password": "secret",
}

// settings returns the variables of the first node, as Kubernetes would make them, and puts files where Secrets are
// mounted.
func (n *nodes) settings(t *testing.T) map[string]string {
	t.Helper()
	pod := n.Metadata.Name + "-0"
	spec := n.Spec.Template.Spec
	environment := map[string]string{}
	for _, e := range spec.Containers[0].Env {
		value := e.Value
		if secret := e.ValueFrom.SecretKeyRef; secret.Name != "" {
			value = secretKeys[secret.Name+"/"+secret.Key]
		}
		if field := e.ValueFrom.FieldRef.FieldPath; field != "" {
			value = map[string]string{"metadata.name": pod, "status.podIP": podIP}[field]
		}
		if value == "" {
			t.Errorf("%s has no value", e.Name)
		}
		environment[e.Name] = value
	}
	ca := testca.New(t)
	_, firstKey, _ := access.Mint()
	files := map[string]string{"ca.crt": string(ca.PEM()), "key": firstKey, "carillon.yaml": "signing_secrets: {}\n",
		"brokers.yaml": "brokers: {events: {kind: nats, addresses: [nats:4222]}}\n",
		"secrets.yaml": "secrets: {api: {env: PGPASSWORD, namespaces: [shop], hosts: [api.example.com]}}\n"}
	pair := ca.Issue(nil, "carillon.jobs.svc", "carillon-jobs.jobs.svc", "jobs.example.com", pod+".jobs-nodes.jobs.svc")
	cert, key := pair.Files(t)
	for name, from := range map[string]string{"tls.crt": cert, "tls.key": key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	dir := t.TempDir()
	for name, text := range files {
		testca.Write(t, filepath.Join(dir, name), []byte(text))
	}
	for _, v := range spec.Volumes {
		for _, m := range spec.Containers[0].VolumeMounts {
			if m.Name == v.Name && v.Secret.SecretName != "" {
				for name, value := range environment {
					environment[name] = strings.ReplaceAll(value, m.MountPath+"/", dir+"/")
				}
			}
		}
	}
	return environment
}

// TestTheChart: with each of its examples it makes nodes whose settings are taken, and that have time to leave.
func TestTheChart(t *testing.T) {
	for name, want := range map[string]struct {
		kind, store     string
		replicas        int
		insecure, https bool
		check           func(c server.Config) bool
	}{
		"embedded": {"StatefulSet", "pebble:/var/lib/carillon/store", 1, true, false, nil},
		"embedded-keys": {"StatefulSet", "pebble:/var/lib/carillon/store", 1, false, true,
			func(c server.Config) bool { return c.Auth == "keys" && c.Targets.SigningSecrets != nil }},
		"etcd": {"StatefulSet", "etcd-embed:/var/lib/carillon/store?listen=0.0.0.0:2380&insecure=yes&member=carillon-0&peers=", 3,
			true, false, nil},
		"etcd-tls": {"StatefulSet", "etcd-embed:/var/lib/carillon/store?listen=0.0.0.0:2380&sslrootcert=", 3, false, true,
			func(c server.Config) bool { return c.Auth == "keys" && c.BootstrapKeyFile != "" }},
		"postgres": {"Deployment", "postgres://carillon@db/jobs?sslmode=verify-full", 3, false, true, func(c server.Config) bool {
			return c.Auth == "keys" && c.LeaseTTL == 10*time.Second && c.Partitions == 128 && len(c.Targets.Allow) == 2 &&
				c.Outages.FireCritical && c.DrainGrace == time.Minute && c.Targets.Brokers.File != "" && slices.Contains(c.Browsers.Hosts, "jobs.example.com") &&
				c.Payloads.Max == 512<<20
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := rendered(t, "--values", filepath.Join(chart, "ci", name+".yaml"))
			pod := n.Spec.Template.Spec
			runs(t, "args", strings.Join(pod.Containers[0].Args, " "))
			if n.Kind != want.kind || n.Spec.Replicas != want.replicas {
				t.Errorf("%s of %d", n.Kind, n.Spec.Replicas)
			}
			c := accepted(t, name, n.settings(t))
			if !strings.HasPrefix(c.Store, want.store) || c.Insecure != want.insecure || (c.Credentials != nil) != want.https ||
				want.check != nil && !want.check(c) {
				t.Errorf("store %s, insecure %v, TLS %v: %+v", c.Store, c.Insecure, c.Credentials != nil, c)
			}
			service := n.Metadata.Name + ".jobs"
			if hosts := c.Browsers.Hosts; len(hosts) < 2 || hosts[0] != service || hosts[1] != service+".svc" {
				t.Errorf("it is not called by the names of its Service: %q", hosts)
			}
			if c.Name != n.Metadata.Name+"-0" || c.Advertise != podIP {
				t.Errorf("name %q, advertise %q", c.Name, c.Advertise)
			}
			grace := time.Duration(pod.Grace) * time.Second
			if least := leaving - server.DefaultDrainGrace + c.DrainGrace; grace < least {
				t.Errorf("terminationGracePeriodSeconds: %v; a node may take %v to leave", grace, least)
			}
		})
	}
}

// TestTheChartsFirstKey: the pod that makes it uses the chart's volume, and the folder that the node does.
func TestTheChartsFirstKey(t *testing.T) {
	text := deployed(t, "kubernetes/first-key.yaml")
	var pod struct {
		Spec struct{ Containers []container }
	}
	if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	line := strings.Join(pod.Spec.Containers[0].Args, " ")
	runs(t, "first-key.yaml", line)
	n := rendered(t, "--values", filepath.Join(chart, "ci", "embedded.yaml"))
	if c := accepted(t, "embedded", n.settings(t)); !strings.HasSuffix(line, " --store "+c.Store) {
		t.Errorf("%s is not for %s", line, c.Store)
	}
	if claim := "claimName: data-" + n.Metadata.Name + "-0}"; !strings.Contains(text, claim) {
		t.Errorf("it has no %s", claim)
	}
}

// TestTheChartRefuses: values that are unknown, do not go together, or would have no effect.
func TestTheChartRefuses(t *testing.T) {
	for set, want := range map[string]string{
		"image.repository=":                                  "repository",
		"replica=3":                                          "additional properties 'replica' not allowed",
		"store.url=postgres://x":                             "additional properties 'url' not allowed",
		"settings.log_leve=debug":                            "additional properties 'log_leve' not allowed",
		"settings.store=memory:":                             "additional properties 'store' not allowed",
		"settings.log_level=trace":                           "value must be one of 'info'",
		"settings.lease_ttl=tomorrow":                        "does not match pattern",
		"settings.max_payload=1MiB":                          "got string, want integer",
		"settings.debug_listen=0.0.0.0:6060":                 "does not match pattern",
		"replicas=three":                                     "got string, want integer",
		"replicas=2":                                         "the embedded store has one node",
		"store.kind=sqlite":                                  "value must be one of 'embedded'",
		"store.kind=etcd,replicas=2":                         "members of etcd are 1, 3 or 5",
		"firstKeySecretName=a":                               "firstKeySecretName: it has no effect without auth: keys",
		"store.kind=url":                                     "which Secret has the URL",
		"store.secretName=x":                                 "which has no URL",
		"insecure=false":                                     "give the Secret of a certificate, or insecure: true",
		"tls.secretName=x":                                   "it has no effect with tls.secretName",
		"insecure=false,auth=keys":                           "give the Secret of a certificate",
		"insecure=false,tls.secretName=x,tls.clientCA=false": "anybody may do everything",
		"tls.peerName=x":                                     "it has no effect without tls.secretName",
		"auth=oidc":                                          "value must be one of",
		"extraEnv[0].name=CARILLON_STORE":                    "extraEnv/0",
		"extraEnv[0].name=A":                                 "extraEnv/0",
		"serviceMonitor.labels.a=b":                          "no effect without serviceMonitor.enabled",
		"serviceAccount.create=false,serviceAccount.annotations.a=b": "no effect without serviceAccount.create",
		"image.digest=latest":                  "does not match pattern",
		`podLabels.app\.kubernetes\.io/name=x`: "at '/podLabels/app.kubernetes.io",
		"fullnameOverride=Jobs":                "does not match pattern",
	} {
		t.Run(set, func(t *testing.T) {
			text, err := template(t, "--set", "image.repository=registry.example/carillon,insecure=true", "--set", set)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v\n%.2000s", want, err, text)
			}
		})
	}
}

// byOtherValues are the flags that are no settings of the chart: other values of it make them.
var byOtherValues = []string{"store", "peers", "node-name", "grpc", "http", "advertise", "tls-cert", "tls-key", "tls-client-ca",
	"tls-peer-ca", "tls-peer-name", "auth", "bootstrap-key-file", "insecure", "brokers", "secrets", "encryption-keys",
	"drain-grace"}

// inASecretOnly are those that only the file in configSecretName can have. A Workload API is not offered: it would need a
// volume of the machine.
var inASecretOnly = []string{"config", "outbox", "tls-spiffe", "auth-rules", "oidc-issuer", "oidc-audience",
	"encryption-kek"}

// TestTheChartHasEachSetting: a new flag of serve is one of the chart, or is named above.
func TestTheChartHasEachSetting(t *testing.T) {
	var schema struct {
		Properties struct {
			Settings struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(deployed(t, "helm/carillon/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	pod := deployed(t, "helm/carillon/templates/_pod.tpl")
	rest := maps.Clone(schema.Properties.Settings.Properties)
	s := serveFlags()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.add(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		_, setting := rest[fileName(f.Name)]
		delete(rest, fileName(f.Name))
		other := slices.Contains(byOtherValues, f.Name)
		if other && !strings.Contains(pod, envName(f.Name)+",") && !strings.Contains(pod, envName(f.Name)+"\n") {
			t.Errorf("no value of the chart makes --%s", f.Name)
		}
		if setting == (other || slices.Contains(inASecretOnly, f.Name)) {
			t.Errorf("--%s: a setting of values.schema.json: %v, and made by other values: %v", f.Name, setting, !setting)
		}
	})
	if len(rest) != 0 {
		t.Errorf("no flags of serve: %v", slices.Sorted(maps.Keys(rest)))
	}
}
