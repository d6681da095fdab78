package store

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Driver opens the stores of one kind. The package of these stores registers it when it is imported, as the
// drivers of database/sql do, so a program can open the stores that it imports and links no others:
//
//	import _ "github.com/carillonhq/carillon/server/store/postgres"
//
// To add a kind: a package with a [Store] (store.go), its [Leaser] (lease.go), and what it can of [Grouper],
// [Submitter], [Gatherer], [Reader], [Counter], [Roomer] and [Examiner]; records encoded by
// server/store/codec; a Driver, which its init function registers; its schemes in packages, here; a test that
// passes it to storetest.RunOptions; its import in server/cmd/carillon/main.go; its line in docs/layers.txt,
// its chapter in docs/stores.md. Of use are server/store/storeurl and inuse, contents and joined for indexes
// in memory, serverclock for the time of servers, and server/internal/testing/servertest.
type Driver struct {
	// Schemes are what the URLs of these stores begin with, before the colon.
	Schemes []string
	// Form shows people how a URL is written and what it means.
	Form string
	// Shared: several processes can have the same store open. Otherwise Open refuses the second one.
	Shared bool
	// Folder returns the folder of this machine that a process alone has open for the URL. Nil: there is none.
	Folder func(url string) string
	// LeaseTTL is how long leases last by default, for a store whose requests cost money; 0: the caller's
	// default.
	LeaseTTL time.Duration
	// Check returns what is wrong with a URL. It does not connect to a server.
	Check func(url string) error
	// Redact returns a URL for logs, without secrets. Nil: there are none in it.
	Redact func(url string) string
	// Unverified returns the host of a server beyond this machine that connections by the URL, which is valid,
	// would not verify by TLS; empty: there is none. Nil: there never is.
	Unverified func(url string) string
	// Open opens the store of a URL, and creates it if there is none.
	Open func(ctx context.Context, url string, o Options) (Store, error)
}

// Options tell how a store is opened. The zero value of a field is its default.
type Options struct {
	// Partitions is the number of partitions of a new store; an existing one keeps its own. Default
	// [DefaultPartitions], at most [MaxPartitions].
	Partitions int
	// MACKey is that of a new store; an existing one keeps its own. Default: 32 random bytes.
	MACKey []byte
	// Epoch is less than that of any term of a new store. It is for stores whose records come from another one.
	Epoch uint64
	// Existing: the store must be there already, and none is created. Otherwise the error is [ErrNoStore].
	Existing bool
	// AsIs: a store of an older format is not brought up to date. The error is [ErrOutdated].
	AsIs bool
	// Now is the clock of a store that has no server with a clock. Default [time.Now].
	Now    func() time.Time
	Events Events
	Log    Logger // default: no log
}

// MaxPartitions is the most partitions that a store can be created with.
const MaxPartitions = math.MaxUint16

// Events are called when the state of a store changes. They must return soon, and must not call the store.
// Any may be nil.
type Events struct {
	Failed    func(err error) // the store cannot write
	Recovered func()          // it can write again
	Damaged   func(d Damage)  // a part of it cannot be read; called at least once for each part
}

// Damage is a part of a store that cannot be read any more.
type Damage struct {
	Part       string // what an operator can look for, such as a file
	Partitions []int  // that have lost records; -1: the store's metadata
	Cause      error
}

// Logger gets what operators should know. A [*log/slog.Logger] is one.
type Logger interface {
	Debug(msg string, args ...any)
	Warn(msg string, args ...any)
	Error(msg string, args ...any)
}

// noLog is the default Logger.
type noLog struct{}

func (noLog) Debug(string, ...any) {}
func (noLog) Warn(string, ...any)  {}
func (noLog) Error(string, ...any) {}

// packages are this module's stores by their schemes, for errors.
var packages = map[string]string{
	"azblob": "azblob", "cassandra": "cassandra", "cassandras": "cassandra", "etcd": "etcd", "etcds": "etcd",
	"etcd-embed": "etcdembed", "gs": "gcs", "memory": "memory", "pebble": "pebble", "postgres": "postgres",
	"postgresql": "postgres", "redis": "redis", "rediss": "redis", "s3": "s3",
}

const packagePath = "github.com/carillonhq/carillon/server/store/"

// drivers are the registered ones by scheme.
var drivers struct {
	sync.RWMutex
	of map[string]Driver
}

// Register makes a driver known. It is for init functions, and panics if one of the schemes is taken.
func Register(d Driver) {
	drivers.Lock()
	defer drivers.Unlock()
	if drivers.of == nil {
		drivers.of = map[string]Driver{}
	}
	for _, scheme := range d.Schemes {
		if _, taken := drivers.of[scheme]; taken {
			panic("store: Register is called twice for " + scheme)
		}
		drivers.of[scheme] = d
	}
}

// Open opens the store of a URL with the driver of its scheme.
func Open(ctx context.Context, url string, o Options) (Store, error) {
	d, err := DriverOf(url)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = noLog{}
	}
	return d.Open(ctx, url, o)
}

// CheckURL returns what is wrong with the URL of a store. It does not connect to a server.
func CheckURL(url string) error {
	d, err := DriverOf(url)
	if err != nil {
		return err
	}
	return d.Check(url)
}

// Redact returns the URL of a store for logs: user and addresses, but no password.
func Redact(url string) string {
	d, err := DriverOf(url)
	switch {
	case err != nil:
		return "a URL of no store"
	case d.Redact == nil:
		return url
	}
	return d.Redact(url)
}

// DriverOf returns the driver of a URL. The error names the package to import if the program lacks it; it
// repeats nothing of the URL that may be a password.
func DriverOf(url string) (Driver, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	drivers.RLock()
	defer drivers.RUnlock()
	if d, found := drivers.of[scheme]; found && ok {
		return d, nil
	}
	pkg, known := packages[scheme]
	switch {
	case url == "":
		return Driver{}, fmt.Errorf("store: none is given; %s", forms())
	case !ok || !known && !isScheme(scheme, rest):
		return Driver{}, fmt.Errorf("store: the URL has no scheme; %s", forms())
	case !known:
		return Driver{}, fmt.Errorf("store: %q is not supported; %s", scheme, forms())
	}
	return Driver{}, fmt.Errorf("store: this program has no %q stores: add import _ %q to it",
		scheme, packagePath+pkg)
}

// forms lists the URLs that there are. The caller holds the lock.
func forms() string {
	all := map[string]bool{}
	for _, d := range drivers.of {
		all[d.Form] = true
	}
	if len(all) == 0 {
		return fmt.Sprintf("the program imports no package of a store, such as %q", packagePath+"pebble")
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// isScheme reports whether the text before the first colon is certainly a scheme: in "host=db password=a:b"
// and in "user:password@host/db" it is not.
func isScheme(text, rest string) bool {
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(text) <= 20 && (strings.HasPrefix(rest, "//") || !strings.ContainsAny(rest, "@="))
}

// CheckPartitions refuses a number of partitions that no store can have; 0 is the default.
func CheckPartitions(n int) error {
	if n < 0 || n > MaxPartitions {
		return fmt.Errorf("store: Partitions is %d: must be from 1 to %d", n, MaxPartitions)
	}
	return nil
}

// RedactURL removes the password from a URL of the form scheme://user:password@hosts/path?parameters, and the
// parameters too if they may hold one.
func RedactURL(url string, keepParameters bool) string {
	scheme, rest, _ := strings.Cut(url, ":")
	rest = strings.TrimPrefix(rest, "//")
	at, query := strings.LastIndexByte(rest, '@'), strings.IndexByte(rest, '?')
	if query >= 0 && query < at { // it cannot be told which of them the @ is in
		return scheme + ":"
	}
	user, _, _ := strings.Cut(rest[:max(at, 0)], ":")
	rest = rest[at+1:]
	if !keepParameters {
		rest, _, _ = strings.Cut(rest, "?")
	}
	if user != "" {
		rest = user + "@" + rest
	}
	return scheme + "://" + rest
}
