package redis

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
	scheme, rest, _ := strings.Cut(text, "://")
	var o Options
	switch scheme {
	case "redis":
	case "rediss":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return o, errors.New("store: a URL of Redis begins with redis:// or rediss://")
	}
	// before all else: whatever a password is made of, it is not repeated
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := o.credentials(rest[:at]); err != nil {
			return o, err
		}
		rest = rest[at+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	rest, database, _ := strings.Cut(rest, "/")
	if err := o.parameters(query); err != nil {
		return o, err
	}
	if err := o.addresses(rest); err != nil {
		return o, err
	}
	if database != "" {
		n, err := strconv.ParseUint(database, 10, 31)
		if err != nil {
			return o, fmt.Errorf("store: the database %q is not a number: write redis://host:port/0", database)
		}
		o.Database = int(n)
	}
	_, err := o.withDefaults()
	return o, err
}

// credentials reads "user:password".
func (o *Options) credentials(text string) (err error) {
	user, password, _ := strings.Cut(text, ":")
	if strings.ContainsAny(text, "/?#") {
		return errors.New("store: user or password of the URL of Redis are not well encoded: write / as %2F, ? as %3F and # as %23, " +
			"and no @ behind the address")
	}
	if o.Username, err = url.PathUnescape(user); err == nil {
		o.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("store: user or password of the URL of Redis are not well encoded: write a percent sign as %25")
	}
	return nil
}

// addresses reads "host:port,host:port".
func (o *Options) addresses(text string) error {
	usual := defaultPort
	if o.Sentinel != "" {
		usual = sentinelPort
	}
	for address := range strings.SplitSeq(text, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			host, port, err = net.SplitHostPort(address + ":" + usual)
		}
		if n, notPort := strconv.ParseUint(port, 10, 16); err != nil || notPort != nil || n == 0 || host == "" {
			return fmt.Errorf("store: %q is no address of Redis: write host:port, and commas between several", address)
		}
		o.Addresses = append(o.Addresses, net.JoinHostPort(host, port))
	}
	return nil
}

// parameters reads what stands behind the question mark.
func (o *Options) parameters(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("store: the parameters of the URL of Redis: %w", err)
	}
	var files urltls.Files
	for name, list := range values {
		switch value := list[len(list)-1]; name {
		case "sslrootcert", "sslcert", "sslkey":
			files.Set(name, value)
		case "prefix":
			o.Prefix = value
		case "sentinel":
			o.Sentinel = value
		case "sentinel_login":
			if value != "yes" && value != "no" {
				return fmt.Errorf("store: sentinel_login is %q in the URL of Redis: must be yes or no", value)
			}
			o.SentinelLogin = value == "yes"
		default:
			return fmt.Errorf("store: a URL of Redis has no parameter %q; there are prefix, sentinel, sentinel_login, sslrootcert, "+
				"sslcert and sslkey", name)
		}
	}
	return files.Read(o.TLS, "Redis", "rediss")
}
