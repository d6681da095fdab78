package cassandra

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/storeurl"
)

// Options of a store. Addresses are needed.
type Options struct {
	// Addresses are "host:port" of nodes of Cassandra: better several of them than one. The others are found
	// by them.
	Addresses []string
	Username  string // empty = Cassandra is used without a user
	Password  string
	// TLS, if it is not nil, is how connections are made.
	TLS *tls.Config
	// Keyspace has the store's tables. Default "carillon". It is created if it is not there.
	Keyspace string
	// Datacenter, if it is not empty, is the one whose nodes answer for the whole: reads and writes wait for
	// most of its replicas (LOCAL_QUORUM, LOCAL_SERIAL). Otherwise they wait for most of all replicas
	// (QUORUM, SERIAL). All nodes must say the same; the store refuses another.
	Datacenter string
	// Replication is the number of replicas in each data centre of a keyspace that is created; 0 = 3, or as
	// many as there are nodes if that is less.
	Replication int
	// Records is how many jobs, pending and finished runs a node may own: one that owns more takes no more
	// jobs. They are in its memory. Default [DefaultRecords].
	Records int
	// Partitions is P of a new store; 0 = [store.DefaultPartitions]. An existing store keeps its own.
	Partitions int
	// MACKey and Epoch are those of a new store, Existing allows none: see [store.Options].
	MACKey   []byte
	Epoch    uint64
	Existing bool
	AsIs     bool // see [store.Options]
	// Timeout is how long an answer may take; what was asked for is then unknown. Default 3 s: Cassandra
	// itself gives a write 2 s.
	Timeout time.Duration
	// Now is this node's clock. The store's is that of Cassandra's nodes. Default time.Now.
	Now func() time.Time
	// Events are called on failures of writes, Log gets what operators should know.
	Events store.Events
	Log    store.Logger // default: no log

	limits    limits
	translate gocql.AddressTranslator // of the addresses that Cassandra's nodes give; nil: none
}

// limits are how the log is cut, and when it is cleaned.
type limits struct {
	segment size // of a segment: a batch that comes when it is as large begins the next
	spare   size // what a log may have besides twice what is of use
}

// size is that of some rows.
type size struct{ rows, bytes int }

func (s size) plus(o size) size { return size{s.rows + o.rows, s.bytes + o.bytes} }

func (s size) minus(o size) size { return size{s.rows - o.rows, s.bytes - o.bytes} }

// over reports whether there are as many rows, or as many bytes, as a limit says.
func (s size) over(limit size) bool { return s.rows >= limit.rows || s.bytes >= limit.bytes }

// DefaultRecords is the default of [Options.Records]: some 2 GB of memory.
const DefaultRecords = 2_000_000

const (
	defaultKeyspace    = "carillon"
	defaultTimeout     = 3 * time.Second
	defaultPort        = "9042"
	defaultReplication = 3
)

// usualLimits keep a partition of Cassandra far below the 100 MB up to which it does well.
var usualLimits = limits{segment: size{10_000, 4 << 20}, spare: size{10_000, 8 << 20}}

var keyspaceForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// withDefaults fills in the defaults and checks the rest.
func (o Options) withDefaults() (Options, error) {
	o.Keyspace = cmp.Or(o.Keyspace, defaultKeyspace)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Partitions = cmp.Or(o.Partitions, store.DefaultPartitions)
	o.Records = cmp.Or(o.Records, DefaultRecords)
	o.limits = cmp.Or(o.limits, usualLimits)
	o.Log = cmp.Or[store.Logger](o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case len(o.Addresses) == 0:
		return o, errors.New("store: no address of Cassandra is given")
	case !keyspaceForm.MatchString(o.Keyspace):
		return o, fmt.Errorf("store: the keyspace %q is not a small letter and then small letters, digits and _, at most 48", o.Keyspace)
	case o.Records < 0 || o.Replication < 0:
		return o, errors.New("store: Options.Records and Options.Replication must not be negative")
	}
	return o, store.CheckPartitions(o.Partitions)
}

// ParseURL reads options from a URL:
// cassandra://[user:password@]host[:port][,host[:port]…][?keyspace=K]. With cassandras:// connections are
// made by TLS, and the servers' certificates are verified against the system's authorities, or with
// sslrootcert=FILE against those of the file. With sslcert=FILE and sslkey=FILE the servers are shown a
// certificate. The files are PEM, and are read once. With datacenter=NAME, replication=N and records=N come
// [Options.Datacenter], [Options.Replication] and [Options.Records]. An error never repeats the password.
func ParseURL(text string) (Options, error) {
	u, err := storeurl.Parse(text, "Cassandra", "cassandra", "cassandras")
	if err != nil {
		return Options{}, err
	}
	o := Options{Username: u.Username, Password: u.Password, TLS: u.TLS, Keyspace: u.Parameters.Get("keyspace"),
		Datacenter: u.Parameters.Get("datacenter")}
	err = cmp.Or(u.Both(), u.Known("keyspace", "datacenter", "replication", "records"), u.NoPath())
	if err != nil {
		return o, err
	}
	for name, into := range map[string]*int{"replication": &o.Replication, "records": &o.Records} {
		n, err := u.Positive(name)
		if err != nil {
			return o, err
		}
		*into = int(n)
	}
	if o.Addresses, err = u.Addresses(defaultPort); err != nil {
		return o, err
	}
	_, err = o.withDefaults()
	return o, err
}
