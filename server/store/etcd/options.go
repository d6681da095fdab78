package etcd

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/storeurl"
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
	// MACKey and Epoch are those of a new store, Existing allows none: see [store.Options].
	MACKey   []byte
	Epoch    uint64
	Existing bool
	AsIs     bool // see [store.Options]
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
	u, err := storeurl.Parse(text, "etcd", "etcd", "etcds")
	if err != nil {
		return Options{}, err
	}
	o := Options{Username: u.Username, Password: u.Password, TLS: u.TLS, Prefix: u.Parameters.Get("prefix")}
	err = cmp.Or(u.Both(), u.Known("prefix", "quota", "records", "maintenance"), u.NoPath())
	if err != nil {
		return o, err
	}
	if o.Quota, err = u.Positive("quota"); err != nil {
		return o, err
	}
	records, err := u.Positive("records")
	if err != nil {
		return o, err
	}
	o.Records = int(records)
	maintenance, err := u.YesNo("maintenance", true)
	if err != nil {
		return o, err
	}
	o.NoMaintenance = !maintenance
	if o.Addresses, err = u.Addresses(defaultPort); err != nil {
		return o, err
	}
	_, err = o.withDefaults()
	return o, err
}
