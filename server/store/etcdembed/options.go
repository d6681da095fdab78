package etcdembed

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/server/store/etcd"
	"github.com/carillonhq/carillon/server/store/storeurl"
)

// Options of a member and its store.
type Options struct {
	Folder string // of the member's data
	Member string // the member's name: one of Peers
	Peers  []Peer // all members, this one included
	// Listen is where this member listens, if others reach it at another address; the zero value: there. Its
	// Name is not used.
	Listen Peer
	// Files are of TLS: between members, and between them and nodes. Each side verifies the other.
	Files storeurl.Files
	// Insecure allows addresses beyond this machine without TLS: who reaches them may do everything.
	Insecure bool
	// Store are the options of the store; Addresses and TLS are set.
	Store etcd.Options
}

// Peer is a member: its name and where others reach it.
type Peer struct {
	Name string
	Host string
	// Port is for other members. Nodes use the one below it.
	Port int
}

const (
	defaultPort  = 2380
	defaultQuota = 8 << 30
	scheme       = "etcd-embed"
)

func (p Peer) peers() string   { return net.JoinHostPort(p.Host, strconv.Itoa(p.Port)) }
func (p Peer) clients() string { return net.JoinHostPort(p.Host, strconv.Itoa(p.Port-1)) }

// loopback reports whether a host is this machine for certain.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// parseAddress reads "host[:port]".
func parseAddress(text string) (Peer, bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port, err = net.SplitHostPort(text + ":" + strconv.Itoa(defaultPort))
	}
	n, notPort := strconv.ParseUint(port, 10, 16)
	ok := err == nil && notPort == nil && n > 1 && host != "" && !strings.ContainsAny(host, "/@?")
	return Peer{Host: host, Port: int(n)}, ok
}

// ParsePeers reads "name=host[:port],name=host[:port]".
func ParsePeers(text string) ([]Peer, error) {
	var out []Peer
	for one := range strings.SplitSeq(text, ",") {
		name, address, ok := strings.Cut(one, "=")
		p, good := parseAddress(address)
		if !ok || name == "" || !good {
			return nil, fmt.Errorf("peers: %q is not name=host:port, with a port above 1; write commas between several", one)
		}
		if slices.ContainsFunc(out, func(p Peer) bool { return p.Name == name }) {
			return nil, fmt.Errorf("peers: there are two members %q", name)
		}
		p.Name = name
		out = append(out, p)
	}
	return out, nil
}

// ParseURL reads options from a URL: etcd-embed:DIR?member=NAME&peers=NAME=HOST[:PORT],… With
// sslrootcert=FILE, sslcert=FILE and sslkey=FILE, all three, members and nodes use TLS and verify each other;
// without, insecure=yes is needed for hosts beyond this machine. listen=HOST[:PORT] is where this member
// listens, if others reach it at another address. The parameters prefix, quota and records are
// those of package etcd.
func ParseURL(text string) (Options, error) {
	rest, ok := strings.CutPrefix(text, scheme+":")
	folder, query, _ := strings.Cut(rest, "?")
	if !ok || folder == "" || strings.HasPrefix(folder, "//") {
		return Options{}, errors.New("store: a URL of an etcd in this process is etcd-embed:DIR?member=NAME&peers=NAME=HOST:PORT,…")
	}
	o := Options{Folder: filepath.Clean(folder)}
	values, err := url.ParseQuery(query)
	if err != nil {
		return o, fmt.Errorf("store: the parameters of %s: %w", scheme, err)
	}
	of := url.Values{}
	for name, list := range values {
		switch value := list[len(list)-1]; name {
		case "member":
			o.Member = value
		case "peers":
			if o.Peers, err = ParsePeers(value); err != nil {
				return o, fmt.Errorf("store: %s: %w", scheme, err)
			}
		case "sslrootcert", "sslcert", "sslkey":
			o.Files.Set(name, value)
			of.Set(name, value)
		case "insecure":
			if value != "yes" && value != "no" {
				return o, fmt.Errorf("store: insecure is %q in the URL of %s: must be yes or no", value, scheme)
			}
			o.Insecure = value == "yes"
		case "listen":
			if o.Listen, ok = parseAddress(value); !ok {
				return o, fmt.Errorf("store: %s: listen is %q: must be host:port, with a port above 1", scheme, value)
			}
		case "prefix", "quota", "records":
			of.Set(name, value)
		default:
			return o, fmt.Errorf("store: a URL of %s has no parameter %q; there are member, peers, listen, insecure, prefix, quota, records, "+
				"sslrootcert, sslcert and sslkey", scheme, name)
		}
	}
	if err := o.check(); err != nil {
		return o, err
	}
	o.Store, err = etcd.ParseURL(o.clientURL(of))
	if o.Store.Quota == 0 {
		o.Store.Quota = defaultQuota
	}
	return o, err
}

// check refuses what cannot be started.
func (o *Options) check() error {
	if len(o.Peers) == 0 {
		return errors.New("store: " + scheme + " needs peers: all members as name=host:port, such as n1=10.0.0.1,n2=10.0.0.2,n3=10.0.0.3")
	}
	if _, ok := o.self(); !ok {
		return fmt.Errorf("store: %s: the member %q is not among peers: each node is one of them, by its name", scheme, o.Member)
	}
	f := o.Files
	if secure := f != (storeurl.Files{}); secure && (f.Authorities == "" || f.Certificate == "" || f.Key == "") {
		return errors.New("store: " + scheme + " with TLS needs sslrootcert, sslcert and sslkey: members verify each other")
	} else if !secure && !o.Insecure {
		for _, p := range append(slices.Clone(o.Peers), o.listens()) {
			if !loopback(p.Host) {
				return fmt.Errorf("store: %s: the member %q is beyond this machine, and there is no TLS: give sslrootcert, sslcert and sslkey; "+
					"or, in a network where everybody may do everything, --insecure, which is insecure=yes in the URL", scheme, p.Name)
			}
		}
	}
	return nil
}

// self is the member of this process.
func (o *Options) self() (Peer, bool) {
	i := slices.IndexFunc(o.Peers, func(p Peer) bool { return p.Name == o.Member })
	if i < 0 {
		return Peer{}, false
	}
	return o.Peers[i], true
}

// listens is where the member of this process listens.
func (o *Options) listens() Peer {
	self, _ := o.self()
	if o.Listen.Host == "" {
		return self
	}
	return Peer{self.Name, o.Listen.Host, o.Listen.Port}
}

// clientURL is the URL of the store that the members are, with some parameters.
func (o *Options) clientURL(of url.Values) string {
	kind := "etcd"
	if o.Files != (storeurl.Files{}) {
		kind = "etcds"
	}
	addresses := make([]string, len(o.Peers))
	for i, p := range o.Peers {
		addresses[i] = p.clients()
	}
	return kind + "://" + strings.Join(addresses, ",") + "?" + of.Encode()
}
