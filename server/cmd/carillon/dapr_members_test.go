package main

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/daprtls"
	"github.com/carillonhq/carillon/server/internal/server"
)

// helmMembers are the members that Dapr's chart names.
const helmMembers = "dapr-scheduler-server-0=https://dapr-scheduler-server-0.dapr-scheduler-server.dapr-system.svc.cluster.local:2380," +
	"dapr-scheduler-server-1=https://dapr-scheduler-server-1.dapr-scheduler-server.dapr-system.svc.cluster.local:2380," +
	"dapr-scheduler-server-2=https://dapr-scheduler-server-2.dapr-scheduler-server.dapr-system.svc.cluster.local:2380"

// lineOf is the command line that the chart gives to one of its three pods.
func lineOf(id string) []string {
	line := slices.Clone(helm)
	line[slices.Index(line, "--id")+1] = id
	line[slices.Index(line, "--etcd-initial-cluster")+1] = helmMembers
	return line
}

// podOf sets what the chart sets in a pod, and what its values leave to be set.
func podOf(t *testing.T, ip, storeURL string) {
	t.Helper()
	t.Setenv("POD_IP", ip)
	t.Setenv("CARILLON_STORE", storeURL)
}

// TestThreeMembersByDaprsFlags: with a store in the environment the chart's three pods are three nodes of one cluster, and
// nothing else is set.
func TestThreeMembersByDaprsFlags(t *testing.T) {
	podOf(t, "10.1.2.3", "postgres://carillon@db/jobs")
	for _, id := range []string{"dapr-scheduler-server-0", "dapr-scheduler-server-1", "dapr-scheduler-server-2"} {
		f, flags := daprLine(t, lineOf(id)...)
		if err := settings(f.settings, "", "", nil); err != nil {
			t.Fatal(err)
		}
		if err := f.validate(flags); err != nil {
			t.Fatal(err)
		}
		c := f.config(flags, nil)
		if c.Store != "postgres://carillon@db/jobs" || c.Name != id || c.GRPC != "0.0.0.0:7070" ||
			c.Advertise != "10.1.2.3" || c.Credentials == nil || c.Insecure {
			t.Errorf("%s: store %s, name %s, grpc %s, advertise %s, credentials %v, insecure %v", id, c.Store, c.Name, c.GRPC,
				c.Advertise, c.Credentials, c.Insecure)
		}
		t.Setenv("POD_IP", "")
		host := id + ".dapr-scheduler-server.dapr-system.svc.cluster.local"
		if c := f.config(flags, nil); c.Advertise != host {
			t.Errorf("%s: without POD_IP advertise %s", id, c.Advertise)
		}
		t.Setenv("POD_IP", "10.1.2.3")
	}
}

// TestMembersNeedAStore: what pods of the chart say that have none in common.
func TestMembersNeedAStore(t *testing.T) {
	podOf(t, "10.1.2.3", "")
	f, flags := daprLine(t, lineOf("dapr-scheduler-server-1")...)
	if err := f.validate(flags); err == nil || !strings.Contains(err.Error(),
		"--etcd-initial-cluster: it has 3 members") || !strings.Contains(err.Error(), "CARILLON_STORE") {
		t.Errorf("%v", err)
	}
}

// TestWhereNodesMeet: flags win over what the chart sets in the environment, that over the members' flag; and a node that
// listens at one address is reached there.
func TestWhereNodesMeet(t *testing.T) {
	const two = "--store=redis://h --tls-enabled --id=a --etcd-initial-cluster=a=https://host-a:2380,b=https://[fd00::2]:2380,a=https://x:1 "
	for _, c := range []struct{ line, pod, listen, reach string }{
		{two, "", ":7070", "host-a"},
		{two, "10.0.0.1", ":7070", "10.0.0.1"},
		{two + "--id=b", "", ":7070", "fd00::2"},
		{two + "--advertise=me:9", "10.0.0.1", ":7070", "me:9"},
		{two + "--listen-address=::", "10.0.0.1", "[::]:7070", "10.0.0.1"},
		{two + "--listen-address=10.9.9.9", "10.0.0.1", "10.9.9.9:7070", ""},
		{two + "--grpc-listen=:9", "10.0.0.1", ":9", "10.0.0.1"},
		{two + "--grpc-listen=10.9.9.9:9", "10.0.0.1", "10.9.9.9:9", ""},
		{two + "--grpc-listen=127.0.0.1:9", "", "127.0.0.1:9", ""},
		{"--store=redis://h --grpc-listen=:9 --insecure", "10.0.0.1", ":9", "10.0.0.1"},
		{"--store=redis://h --grpc-listen=:9 --insecure", "", ":9", ""},
		{"--grpc-listen=127.0.0.1:9", "10.0.0.1", "127.0.0.1:9", ""},
		{"", "10.0.0.1", server.None, ""},
	} {
		t.Setenv("POD_IP", c.pod)
		f, flags := daprLine(t, strings.Fields(c.line)...)
		if err := f.validate(flags); err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		if got := f.config(flags, nil); got.GRPC != c.listen || got.Advertise != c.reach {
			t.Errorf("%s, pod at %q: listens at %q, reached at %q; want %q, %q", c.line, c.pod, got.GRPC, got.Advertise,
				c.listen, c.reach)
		}
	}
}

// TestMembersThatAreRefused names the flag, and what would be right.
func TestMembersThatAreRefused(t *testing.T) {
	const two = "--store=redis://h --id=a --etcd-initial-cluster=a=https://host-a:2380,b=https://host-b:2380 "
	for line, want := range map[string]string{
		"--etcd-initial-cluster=host-a":               `--etcd-initial-cluster: "host-a" is not a member such as`,
		"--etcd-initial-cluster==https://h:1":         `"=https://h:1" is not a member`,
		"--etcd-initial-cluster=a=h:1":                `"a=h:1" is not a member`,
		"--etcd-initial-cluster=a=https://":           `"a=https://" is not a member`,
		two + "--tls-enabled --id=c":                  `--id: "c" is none of the members in --etcd-initial-cluster, which are a, b`,
		two:                                           "--grpc-listen: the nodes would talk to each other at :7070",
		two + "--listen-address=10.0.0.1":             "give --tls-enabled, or say --insecure",
		two + "--tls-enabled --grpc-listen=none":      "grpc: there is none, and the nodes of a store talk to each other there",
		two + "--tls-enabled --http-listen=0.0.0.0:1": "http: 0.0.0.0:1 is reachable from other machines",
		"--store=memory: --etcd-initial-cluster=a=http://a:1,b=http://b:1": "it has 2 members",
	} {
		t.Setenv("POD_IP", "")
		f, flags := daprLine(t, strings.Fields(line)...)
		if err := f.validate(flags); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for _, line := range []string{two + "--insecure", two + "--listen-address=127.0.0.1", two + "--mode=kubernetes"} {
		f, flags := daprLine(t, strings.Fields(line)...)
		if err := f.validate(flags); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	t.Setenv("POD_IP", "nowhere")
	f, flags := daprLine(t, strings.Fields(two+"--tls-enabled")...)
	if err := f.validate(flags); err == nil || !strings.Contains(err.Error(), `environment POD_IP: "nowhere" is not an IP address`) {
		t.Errorf("%v", err)
	}
}

// TestWhoMustShowACertificate: nodes know each other by certificates if sidecars do; a node that is alone is reached by
// people, who have none, and --insecure says that nobody needs one.
func TestWhoMustShowACertificate(t *testing.T) {
	t.Setenv("POD_IP", "")
	for line, secure := range map[string]bool{
		"--store=redis://h --grpc-listen=:9 --tls-enabled":            true,
		"--store=redis://h --grpc-listen=:9 --mode=kubernetes":        true,
		"--store=redis://h --grpc-listen=:9 --tls-enabled --insecure": false,
		"--store=redis://h --grpc-listen=127.0.0.1:9":                 false,
		"--grpc-listen=127.0.0.1:9 --tls-enabled":                     false,
	} {
		f, flags := daprLine(t, strings.Fields(line)...)
		if err := f.validate(flags); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		c := f.config(flags, slog.New(slog.DiscardHandler))
		if (c.Credentials != nil) != secure {
			t.Errorf("%s: credentials %v", line, c.Credentials)
		}
	}
	identity, err := daprtls.FromFiles(certificate(t, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer identity.Close()
	c := server.Config{Sidecars: &server.Sidecars{}, Credentials: &server.Credentials{}}
	admit(identity, &c, &daprapi.Options{})
	if len(c.Credentials.Server) == 0 || len(c.Credentials.Dial) == 0 || c.Credentials.Ready() != nil {
		t.Errorf("%+v", c.Credentials)
	}
}

// TestTheMembersAreNoticed: the log says what becomes of the flag.
func TestTheMembersAreNoticed(t *testing.T) {
	t.Setenv("POD_IP", "")
	for line, want := range map[string]string{
		"--etcd-initial-cluster=a=http://a:1":                                                      "one node is its own cluster",
		"--store=redis://h --etcd-initial-cluster=a=http://a:1":                                    "nodes find each other in the store",
		"--store=redis://h --tls-enabled --id=a --etcd-initial-cluster=a=http://a:1,b=http://b:1 ": "it says where this node is reached",
	} {
		var b bytes.Buffer
		f, flags := daprLine(t, append(strings.Fields(line), "--listen-address=127.0.0.1")...)
		f.notices(flags, slog.New(slog.NewTextHandler(&b, nil)))
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: %s", line, b.String())
		}
	}
}
