package bucket

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Place is where objects are: a bucket, and what the names of all of them begin with.
type Place struct {
	Prefix string // without a slash at its end; empty: none
	// Database says that the objects are in tables of a database: backups do not belong there.
	Database bool
	Connect  func(ctx context.Context, w *Watch) (Bucket, error)
}

// drivers read the URLs of places, by their schemes.
var drivers struct {
	sync.RWMutex
	of map[string]func(url string) (Place, error)
}

// Register makes known what reads the URLs of a scheme. It is called when a driver of stores is registered,
// and panics if the scheme is taken.
func Register(scheme string, read func(url string) (Place, error)) {
	drivers.Lock()
	defer drivers.Unlock()
	if drivers.of == nil {
		drivers.of = map[string]func(string) (Place, error){}
	}
	if drivers.of[scheme] != nil {
		panic("bucket: Register is called twice for " + scheme)
	}
	drivers.of[scheme] = read
}

// Parse reads the URL of a place. It does not connect.
func Parse(url string) (Place, error) {
	scheme, _, _ := strings.Cut(url, ":")
	drivers.RLock()
	read := drivers.of[scheme]
	known := slices.Sorted(maps.Keys(drivers.of))
	drivers.RUnlock()
	if read == nil {
		return Place{}, fmt.Errorf("%.32q is no kind of bucket that this program has; it has %s", scheme,
			strings.Join(known, ", "))
	}
	return read(url)
}
