package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon/server/internal/server"
)

// The files in deploy/ are held against the commands: every setting in them exists and is accepted, every
// command line is one, and what ends a node waits until it has left.

const deploy = "../../../deploy/"

// leaving is how long a node may take to leave: the grace, what it hands over and makes durable, and its
// listeners.
const leaving = server.DefaultDrainGrace + 20*time.Second

// podIP stands for what only a cluster knows.
const podIP = "10.1.2.3"

// accepted resolves the settings as `carillon serve` does.
func accepted(t *testing.T, what string, environment map[string]string) server.Config {
	t.Helper()
	for name, value := range environment {
		t.Setenv(name, value)
	}
	s := serveFlags()
	cmd := &cobra.Command{}
	s.add(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { delete(environment, envName(f.Name)) })
	for name := range environment {
		if strings.HasPrefix(name, "CARILLON_") {
			t.Errorf("%s: %s is no setting of carillon serve", what, name)
		}
	}
	c, err := s.resolve(cmd, io.Discard)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	t.Cleanup(func() {
		if s.tls.end != nil {
			s.tls.end()
		}
	})
	if c.Name == "" {
		t.Errorf("%s: it has no name", what)
	}
	return c
}

// runs checks a command line of the binary.
func runs(t *testing.T, what, line string) {
	t.Helper()
	if err := parses(line); err != nil {
		t.Errorf("%s: carillon %s: %v", what, line, err)
	}
}

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(deploy + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// image is a line that names an image: of a Dockerfile, or of a file in YAML.
var image = regexp.MustCompile(`(?m)^(?:FROM|\s*image:)\s+(\S+)`)

// digest is how an image is named that can be no other one.
var digest = regexp.MustCompile(`^[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}$`)

func TestDeployImages(t *testing.T) {
	builders := 0
	for _, name := range []string{"docker/Dockerfile", "docker/compose.yaml", "kubernetes/carillon.yaml"} {
		found := image.FindAllStringSubmatch(deployed(t, name), -1)
		if len(found) == 0 {
			t.Errorf("%s names no image", name)
		}
		for _, line := range found {
			switch from := line[1]; {
			// empty, and what the Dockerfile builds
			case from == "scratch", from == "carillon", from == "carillon:latest":
			case !digest.MatchString(from):
				t.Errorf("%s: %s has no digest: its tag can come to mean another image", name, from)
			case strings.HasPrefix(from, "golang:"):
				builders++
				if !strings.HasPrefix(from, "golang:"+goVersion(t)+"@") {
					t.Errorf("%s builds with %s, go.mod asks for %s", name, from, goVersion(t))
				}
			}
		}
	}
	if builders != 1 {
		t.Errorf("%d images build the binary", builders)
	}
}

// TestTheImageIsAlsoDaprsProgram: Dapr's chart runs /scheduler, and it must be the same binary.
func TestTheImageIsAlsoDaprsProgram(t *testing.T) {
	text := deployed(t, "docker/Dockerfile")
	link := "\nRUN ln -s /carillon /out/" + daprProgram + "\n"
	made, copied := strings.Index(text, link), strings.Index(text, "\nCOPY --from=build /out/ /\n")
	if made < 0 || copied < made || !strings.Contains(text, " -o /out/carillon ") {
		t.Errorf("the image has no link /%s to /carillon: a folder is copied, so that the link stays one", daprProgram)
	}
}

// TestTheImageHasAFolderForCopies: an import from a folder works on a copy, and whoever runs the image may write
// nowhere else.
func TestTheImageHasAFolderForCopies(t *testing.T) {
	text := deployed(t, "docker/Dockerfile")
	made, copied := strings.Index(text, "\nRUN mkdir -m 1777 /out/tmp\n"), strings.Index(text, "\nCOPY --from=build /out/ /\n")
	if made < 0 || copied < made {
		t.Errorf("the image has no folder /tmp that everybody may write to")
	}
}

// goVersion is the Go that go.mod asks for.
func goVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(text)
	if version == nil {
		t.Fatal("go.mod names no version of Go")
	}
	return string(version[1])
}

// unitLine is a setting of a unit or of its environment.
var unitLine = regexp.MustCompile(`(?m)^([A-Za-z_]+)=(.*)$`)

func TestDeploySystemd(t *testing.T) {
	unit := map[string]string{}
	environment := map[string]string{}
	for _, m := range unitLine.FindAllStringSubmatch(deployed(t, "systemd/carillon.service"), -1) {
		if m[1] == "Environment" {
			name, value, _ := strings.Cut(m[2], "=")
			environment[name] = strings.ReplaceAll(value, "%H", "host-1")
			continue
		}
		unit[m[1]] = m[2]
	}
	for _, m := range unitLine.FindAllStringSubmatch(deployed(t, "systemd/carillon.env"), -1) {
		environment[m[1]] = m[2]
	}
	runs(t, "ExecStart", strings.TrimPrefix(unit["ExecStart"], "/usr/local/bin/carillon "))
	if c := accepted(t, "carillon.env", environment); !c.Insecure {
		t.Error("carillon.env: it listens beyond loopback, and does not say --insecure")
	}
	if seconds, err := time.ParseDuration(unit["TimeoutStopSec"] + "s"); err != nil || seconds < leaving {
		t.Errorf("TimeoutStopSec %v, %v; a node may take %v to leave", seconds, err, leaving)
	}
}

// compose is what the test looks at of a compose file.
type compose struct {
	Services map[string]struct {
		Environment map[string]string
		Healthcheck struct{ Test []string }
		Grace       string `yaml:"stop_grace_period"`
		Ports       []string
		Networks    []string
	}
	Networks, Volumes map[string]any
}

func TestDeployCompose(t *testing.T) {
	var file compose
	if err := yaml.Unmarshal([]byte(deployed(t, "docker/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for name, service := range file.Services {
		for _, network := range service.Networks {
			if _, ok := file.Networks[network]; !ok {
				t.Errorf("%s: there is no network %q", name, network)
			}
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: %s is published beyond loopback", name, port)
			}
		}
		if !strings.HasPrefix(name, "node-") {
			continue
		}
		c := accepted(t, name, service.Environment)
		if nodes[c.Name] || c.Advertise != name {
			t.Errorf("%s: is called %q, a name that another has: %v; advertises %q", name, c.Name,
				nodes[c.Name], c.Advertise)
		}
		nodes[c.Name] = true
		test := service.Healthcheck.Test
		if len(test) < 3 || test[0] != "CMD" || test[1] != "/carillon" {
			t.Fatalf("%s: the image has nothing but /carillon: %q", name, test)
		}
		runs(t, name, strings.Join(test[2:], " "))
		if grace, err := time.ParseDuration(service.Grace); err != nil || grace < leaving {
			t.Errorf("%s: stop_grace_period %v, %v; a node may take %v to leave", name, grace, err, leaving)
		}
	}
	if len(nodes) != 3 {
		t.Errorf("%d nodes", len(nodes))
	}
}

// manifestFile is what the test looks at of a manifest.
type manifestFile struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string `yaml:"stringData"`
	Spec     struct {
		ServiceName string `yaml:"serviceName"`
		Template    struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
			}
		}
	}
}

type container struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
			FieldRef     struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Startup   probe `yaml:"startupProbe"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

func TestDeployKubernetes(t *testing.T) {
	all := map[string]manifestFile{}
	for d := yaml.NewDecoder(bytes.NewReader([]byte(deployed(t, "kubernetes/carillon.yaml")))); ; {
		var m manifestFile
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all[m.Kind+"/"+m.Metadata.Name] = m
	}
	for _, want := range []string{"NetworkPolicy/carillon", "Service/carillon", "PodDisruptionBudget/carillon"} {
		if _, ok := all[want]; !ok {
			t.Errorf("there is no %s", want)
		}
	}
	set := all["StatefulSet/carillon"].Spec
	if _, ok := all["Service/"+set.ServiceName]; !ok {
		t.Errorf("there is no service %q", set.ServiceName)
	}
	if grace := time.Duration(set.Template.Spec.Grace) * time.Second; grace < leaving {
		t.Errorf("terminationGracePeriodSeconds: %v; a node may take %v to leave", grace, leaving)
	}
	if len(set.Template.Spec.Containers) != 1 {
		t.Fatal("want one container")
	}
	c := set.Template.Spec.Containers[0]
	runs(t, "args", strings.Join(c.Args, " "))
	environment := map[string]string{}
	for _, e := range c.Env {
		value := e.Value
		if secret := e.ValueFrom.SecretKeyRef; secret.Name != "" {
			value = all["Secret/"+secret.Name].Data[secret.Key]
		}
		if field := e.ValueFrom.FieldRef.FieldPath; field != "" {
			value = map[string]string{"metadata.name": "carillon-0", "status.podIP": podIP}[field]
		}
		if value == "" {
			t.Errorf("%s has no value", e.Name)
		}
		environment[e.Name] = value
	}
	if node := accepted(t, "StatefulSet", environment); node.Name != "carillon-0" || node.Advertise != podIP {
		t.Errorf("name %q, advertise %q", node.Name, node.Advertise)
	}
	for path, p := range map[string]probe{"/livez": c.Liveness, "/readyz": c.Readiness} {
		if p.Get.Path != path || p.Get.Port != "http" {
			t.Errorf("probe of %s: %+v", path, p)
		}
	}
	if c.Startup.Get.Path != "/livez" {
		t.Errorf("startup: %+v", c.Startup)
	}
}

// daprValues are the values for Dapr's chart.
type daprValues struct {
	Global struct {
		Volumes struct {
			Scheduler []struct {
				Name   string
				Secret struct {
					SecretName string `yaml:"secretName"`
				}
			}
		} `yaml:"extraVolumes"`
		Mounts struct {
			Scheduler []struct {
				Name      string
				MountPath string `yaml:"mountPath"`
			}
		} `yaml:"extraVolumeMounts"`
	}
	Scheduler struct {
		Image       struct{ Name string }
		Environment map[string]string `yaml:"extraEnvVars"`
	} `yaml:"dapr_scheduler"`
}

// TestDeployDapr: the file of settings is where the Secret is mounted, and the file in the comment is one.
// TestDaprsChart renders the chart with the values, where there is one.
func TestDeployDapr(t *testing.T) {
	text := deployed(t, "dapr/values.yaml")
	var v daprValues
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	volumes, mounts := v.Global.Volumes.Scheduler, v.Global.Mounts.Scheduler
	if len(volumes) != 1 || len(mounts) != 1 || mounts[0].Name != volumes[0].Name || volumes[0].Secret.SecretName == "" ||
		!strings.Contains(v.Scheduler.Image.Name, "/") {
		t.Fatalf("%+v", v)
	}
	for name, value := range v.Scheduler.Environment {
		if name != envName("config") || value != mounts[0].MountPath+"/carillon.yaml" {
			t.Errorf("%s=%s, and the Secret is at %s", name, value, mounts[0].MountPath)
		}
	}
	example := regexp.MustCompile(`(?m)^#   (store: .*)$`).FindStringSubmatch(text)
	if example == nil {
		t.Fatal("the comment has no example of the file")
	}
	f, flags := daprLine(t, lineOf("dapr-scheduler-server-1")...)
	if err := fromFile(f.settings, map[string]bool{}, "carillon.yaml", []byte(example[1]), nil); err != nil {
		t.Fatal(err)
	}
	if err := f.validate(flags); err != nil {
		t.Error(err)
	}
}
