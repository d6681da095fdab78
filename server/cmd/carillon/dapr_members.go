package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/store"
)

// Dapr's schedulers are the members of a cluster of etcd, and each is told of all in --etcd-initial-cluster.
// Nodes find each other in the store that they share, so the flag says here only that there are others, and
// where this one is reached.

// nodePort is where a node is reached by the others of the flag, unless --grpc-listen says otherwise. It is
// none of those that Dapr's chart gives to a scheduler: 2379, 2380, 8080, 9090, 40000 and 50006.
const nodePort = 7070

// podIPVariable is the variable by which Dapr's chart tells a scheduler its address.
const podIPVariable = "POD_IP"

// daprMember is a member of Dapr's cluster.
type daprMember struct{ name, host string }

// daprMembers reads the members as etcd does: NAME=URL; who is named more than once has several addresses, of
// which the first counts.
func daprMembers(texts []string) ([]daprMember, error) {
	var members []daprMember
	for _, text := range texts {
		name, address, _ := strings.Cut(text, "=")
		u, err := url.Parse(address)
		if name == "" || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return nil, fmt.Errorf("%q is not a member such as dapr-scheduler-server-0=https://host:2380", clip(text, 80))
		}
		if !slices.ContainsFunc(members, func(m daprMember) bool { return m.name == name }) {
			members = append(members, daprMember{name, u.Hostname()})
		}
	}
	return members, nil
}

// sharesStore reports whether jobs are in a store that other nodes can open as well.
func (f *daprFlags) sharesStore() bool {
	d, err := store.DriverOf(f.store)
	return err == nil && d.Shared
}

// member returns this node as a member among others; false if there are no others, or it is none of them.
func (f *daprFlags) member() (daprMember, bool) {
	members, err := daprMembers(f.etcdCluster)
	i := slices.IndexFunc(members, func(m daprMember) bool { return m.name == f.id })
	if err != nil || len(members) < 2 || i < 0 {
		return daprMember{}, false
	}
	return members[i], true
}

// validateMembers checks the flag of the members, and what it needs of others.
func (f *daprFlags) validateMembers(wrong func(format string, args ...any)) {
	members, err := daprMembers(f.etcdCluster)
	switch {
	case err != nil:
		wrong("--etcd-initial-cluster: %s", err)
	case len(members) < 2:
	case !f.sharesStore():
		wrong("--etcd-initial-cluster: it has %d members, and nodes that keep jobs in folders would each have their own. "+
			"Give all of them one store: postgres://… or redis://… as CARILLON_STORE in the environment, or as --store; "+
			"or run one replica, and name that one only", len(members))
	default:
		f.validateMember(members, wrong)
	}
}

// validateMember checks what this node is among others.
func (f *daprFlags) validateMember(members []daprMember, wrong func(format string, args ...any)) {
	if _, is := f.member(); !is {
		names := make([]string, len(members))
		for i, m := range members {
			names[i] = m.name
		}
		wrong("--id: %q is none of the members in --etcd-initial-cluster, which are %s", clip(f.id, 80),
			clip(strings.Join(names, ", "), 200))
	}
	host, _, err := net.SplitHostPort(f.nodesListen())
	if err == nil && !server.OnLoopback(host) && !f.secure() && !f.own.Insecure {
		wrong("--grpc-listen: the nodes would talk to each other at %s, and without certificates whoever reaches that may do everything: "+
			"give --tls-enabled, or say --insecure if the network is closed", f.nodesListen())
	}
	if ip := os.Getenv(podIPVariable); ip != "" {
		if _, err := netip.ParseAddr(ip); err != nil {
			wrong("environment %s: %q is not an IP address", podIPVariable, clip(ip, 80))
		}
	}
}

// nodesListen returns where the node listens for the others and for Carillon's own API.
func (f *daprFlags) nodesListen() string {
	if _, is := f.member(); is && f.sharesStore() {
		return cmp.Or(f.own.GRPC, hostPort(f.listen, nodePort))
	}
	return cmp.Or(f.own.GRPC, server.None)
}

// nodesReach returns the host at which the others reach this node; empty: where it listens.
func (f *daprFlags) nodesReach() string {
	if f.own.Advertise != "" || !f.sharesStore() {
		return f.own.Advertise
	}
	host, _, err := net.SplitHostPort(f.nodesListen())
	if ip, notIP := netip.ParseAddr(host); err != nil || host != "" && (notIP != nil || !ip.IsUnspecified()) {
		return "" // it listens at one address
	}
	m, _ := f.member()
	return cmp.Or(os.Getenv(podIPVariable), m.host)
}

// credentials returns what makes nodes known to each other, to be filled in when the node has its identity;
// nil: they talk in plain text. Who is alone is reached by people, who have no certificate.
func (f *daprFlags) credentials() *server.Credentials {
	if !f.secure() || !f.sharesStore() || f.own.Insecure {
		return nil
	}
	return &server.Credentials{}
}

// membersNotice returns what the log says of the flag for the members.
func (f *daprFlags) membersNotice() string {
	switch _, among := f.member(); {
	case among:
		return "it says where this node is reached, no more: nodes find each other in the store"
	case f.sharesStore():
		return "nodes find each other in the store"
	}
	return "one node is its own cluster"
}
