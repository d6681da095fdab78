package etcd

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/urltls"
)

// Options of a store. Addresses are needed.
type Options struct {
	// Addresses are "host:port" of members of the etcd cluster: better all of them than one.
	Addresses []string
	Username  string // empty = etcd is used without a user
	Password  string
	// TLS, if it is not nil, is how connections are made.
	TLS *tls.Config
	// Prefix is what the store's keys begin with, up to a slash. Stores of different prefixes may share an
	// etcd. Default "carillon".
	Prefix string
	// Quota is the size at which etcd itself takes no more writes (its --quota-backend-bytes), for members
	// before version 3.6, which do not tell it. Default 2 GiB, as etcd's.
	Quota int64
	// Records is how many jobs, pending and finished runs a node keeps in memory at most: one that owns more
	// takes no more jobs. Default [DefaultRecords].
	Records int
	// NoMaintenance leaves compaction, defragmentation and alarms to the operator of etcd, as is right where
	// others use it, too: all of these concern everything that is in it.
	NoMaintenance bool
	// Partitions is P of a new store; 0 = [store.DefaultPartitions]. An existing store keeps its own.
	Partitions int
	// Timeout is how long an answer may take; what was asked for is then unknown. Default 3 s: a member that
	// has passed a write on to a leader that was lost answers after 7 s only.
	Timeout time.Duration
	// Now is this node's clock. The store's is that of etcd's members, as far as they tell. Default time.Now.
	Now func() time.Time
	// Events are called on failures of writes, Log gets what operators should know.
	Events store.Events
	Log    store.Logger // default: no log

	pace pace // of the maintainer
}

// DefaultRecords is the default of [Options.Records]: some 2 GB of memory.
const DefaultRecords = 2_000_000

const (
	defaultPrefix  = "carillon"
	defaultTimeout = 3 * time.Second
	defaultPort    = "2379"
	defaultQuota   = 2 << 30
)

// withDefaults fills in the defaults and checks the rest.
func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Partitions = cmp.Or(o.Partitions, store.DefaultPartitions)
	o.Quota = cmp.Or(o.Quota, defaultQuota)
	o.Records = cmp.Or(o.Records, DefaultRecords)
	o.pace = cmp.Or(o.pace, pace{maintainEvery, historyKept, shortKept})
	o.Log = cmp.Or[store.Logger](o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case len(o.Addresses) == 0:
		return o, errors.New("store: no address of etcd is given")
	case strings.Trim(o.Prefix, "/") != o.Prefix || strings.ContainsAny(o.Prefix, " \r\n\x00"):
		return o, fmt.Errorf("store: the prefix %q has white space in it, or a slash at one end", o.Prefix)
	case o.Quota < 0 || o.Records < 0:
		return o, errors.New("store: quota and records of the URL of etcd must be above 0")
	}
	return o, store.CheckPartitions(o.Partitions)
}

// endpoints are the addresses as URLs.
func (o *Options) endpoints() []string {
	scheme := "http://"
	if o.TLS != nil {
		scheme = "https://"
	}
	out := make([]string, len(o.Addresses))
	for i, a := range o.Addresses {
		out[i] = scheme + a
	}
	return out
}

// ParseURL reads options from a URL: etcd://[user:password@]host[:port][,host[:port]…][?prefix=P]. With
// etcds:// connections are made by TLS, and the servers' certificates are verified against the system's
// authorities, or with sslrootcert=FILE against those of the file. With sslcert=FILE and sslkey=FILE the
// servers are shown a certificate. The files are PEM, and are read once. With quota=BYTES, records=N and
// maintenance=no come [Options.Quota], [Options.Records] and [Options.NoMaintenance]. An error never repeats
// the password.
func ParseURL(text string) (Options, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	var o Options
	switch scheme {
	case "etcd":
	case "etcds":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return o, errors.New("store: a URL of etcd begins with etcd:// or etcds://")
	}
	// before all else: whatever a password is made of, it is not repeated
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := o.credentials(rest[:at]); err != nil {
			return o, err
		}
		rest = rest[at+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	if err := o.parameters(query); err != nil {
		return o, err
	}
	if err := o.addresses(strings.TrimSuffix(rest, "/")); err != nil {
		return o, err
	}
	_, err := o.withDefaults()
	return o, err
}

// credentials reads "user:password".
func (o *Options) credentials(text string) (err error) {
	user, password, _ := strings.Cut(text, ":")
	if strings.ContainsAny(text, "/?#") {
		return errors.New("store: user or password of the URL of etcd are not well encoded: write / as %2F, ? as %3F and # as %23, " +
			"and no @ behind the address")
	}
	if o.Username, err = url.PathUnescape(user); err == nil {
		o.Password, err = url.PathUnescape(password)
	}
	switch {
	case err != nil:
		return errors.New("store: user or password of the URL of etcd are not well encoded: write a percent sign as %25")
	case o.Username == "" || o.Password == "":
		return errors.New("store: the URL of etcd has a user without a password, or a password without a user")
	}
	return nil
}

// addresses reads "host:port,host:port".
func (o *Options) addresses(text string) error {
	for address := range strings.SplitSeq(text, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			host, port, err = net.SplitHostPort(address + ":" + defaultPort)
		}
		if n, notPort := strconv.ParseUint(port, 10, 16); err != nil || notPort != nil || n == 0 || host == "" ||
			strings.ContainsAny(host, "/") {
			return fmt.Errorf("store: %q is no address of etcd: write host:port, and commas between several", address)
		}
		o.Addresses = append(o.Addresses, net.JoinHostPort(host, port))
	}
	return nil
}

// parameters reads what stands behind the question mark.
func (o *Options) parameters(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("store: the parameters of the URL of etcd: %w", err)
	}
	var files urltls.Files
	for name, list := range values {
		value, err := list[len(list)-1], error(nil)
		switch name {
		case "sslrootcert", "sslcert", "sslkey":
			files.Set(name, value)
		case "prefix":
			o.Prefix = value
		case "maintenance":
			if value != "yes" && value != "no" {
				return fmt.Errorf("store: maintenance is %q in the URL of etcd: must be yes or no", value)
			}
			o.NoMaintenance = value == "no"
		case "quota":
			o.Quota, err = positive(name, value)
		case "records":
			var n int64
			n, err = positive(name, value)
			o.Records = int(n)
		default:
			return fmt.Errorf("store: a URL of etcd has no parameter %q; there are prefix, quota, records, maintenance, sslrootcert, sslcert "+
				"and sslkey", name)
		}
		if err != nil {
			return err
		}
	}
	return files.Read(o.TLS, "etcd", "etcds")
}

// positive reads a number above 0.
func positive(name, value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("store: %s is %q in the URL of etcd: must be a whole number above 0", name, value)
	}
	return n, nil
}
