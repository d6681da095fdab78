package redis

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/storeurl"
)

// Options of a store. Addresses are needed.
type Options struct {
	// Addresses are "host:port": one of a server, or some of a Redis Cluster, which tells the others.
	Addresses []string
	Username  string // empty = the default user
	Password  string // empty = none
	// Database is the number of the database of a server; a cluster has only 0.
	Database int
	// TLS, if it is not nil, is how connections are made.
	TLS *tls.Config
	// Prefix is what the store's keys begin with, inside of braces. Stores of different prefixes may share a
	// Redis. Default "carillon".
	Prefix string
	// Sentinel, if it is not empty, is the name under which sentinels know a primary. Addresses are then
	// theirs.
	Sentinel string
	// SentinelLogin has Username and Password be told to the sentinels too.
	SentinelLogin bool
	// Partitions is P of a new store; 0 = [store.DefaultPartitions]. An existing store keeps its own.
	Partitions int
	// MACKey and Epoch are those of a new store, Existing allows none: see [store.Options].
	MACKey   []byte
	Epoch    uint64
	Existing bool
	AsIs     bool // see [store.Options]
	// Timeout is how long an answer may take before the connection is given up; what was asked for is then
	// unknown. Default 10 s.
	Timeout time.Duration
	// Events are called on failures of writes, Log gets what a server is set up to lose.
	Events store.Events
	Log    store.Logger // default: no log
}

const (
	defaultPrefix  = "carillon"
	defaultTimeout = 10 * time.Second
	defaultPort    = "6379"
	sentinelPort   = "26379"
)

// withDefaults fills in the defaults and checks the rest.
func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Partitions = cmp.Or(o.Partitions, store.DefaultPartitions)
	o.Log = cmp.Or[store.Logger](o.Log, slog.New(slog.DiscardHandler))
	switch {
	case len(o.Addresses) == 0:
		return o, errors.New("store: no address of Redis is given")
	case o.SentinelLogin && o.Sentinel == "":
		return o, errors.New("store: sentinel_login without sentinel in the URL of Redis: say the primary's name with sentinel=NAME")
	case strings.ContainsAny(o.Prefix, "{}: \r\n"):
		return o, fmt.Errorf("store: the prefix %q has a brace, a colon or white space in it", o.Prefix)
	}
	return o, store.CheckPartitions(o.Partitions)
}

// ParseURL reads options from a URL:
// redis://[user:password@]host[:port][,host[:port]…][/database][?prefix=P]. With sentinel=NAME the addresses
// are those of sentinels, who know the primary by that name; with sentinel_login=yes they are told user and
// password as well. With rediss:// connections are made by TLS, and the server's certificate is verified
// against the system's authorities, or with sslrootcert=FILE against those of the file. With sslcert=FILE and
// sslkey=FILE the server is shown a certificate. The files are PEM, and are read once. An error never repeats
// the password.
func ParseURL(text string) (Options, error) {
	u, err := storeurl.Parse(text, "Redis", "redis", "rediss")
	if err != nil {
		return Options{}, err
	}
	o := Options{Username: u.Username, Password: u.Password, TLS: u.TLS, Prefix: u.Parameters.Get("prefix"),
		Sentinel: u.Parameters.Get("sentinel")}
	if err := u.Known("prefix", "sentinel", "sentinel_login"); err != nil {
		return o, err
	}
	if o.SentinelLogin, err = u.YesNo("sentinel_login", false); err != nil {
		return o, err
	}
	usual := defaultPort
	if o.Sentinel != "" {
		usual = sentinelPort
	}
	if o.Addresses, err = u.Addresses(usual); err != nil {
		return o, err
	}
	if u.Path != "" {
		n, err := strconv.ParseUint(u.Path, 10, 31)
		if err != nil {
			return o, fmt.Errorf("store: the database %q is not a number: write redis://host:port/0", u.Path)
		}
		o.Database = int(n)
	}
	_, err = o.withDefaults()
	return o, err
}
