package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/storeurl"
)

func init() {
	driver{
		Schemes: []string{"postgres", "postgresql"}, Form: `"postgres://…" (a PostgreSQL database)`, Shared: true,
		Check: CheckURL, Open: openURL,
		Unverified: unverified,
		Redact:     func(url string) string { return store.RedactURL(url, false) }, // a parameter may be a password
	}.Register()
}

// driver opens stores, and places for objects that are kept beside a store.
type driver store.Driver

// Register makes both known.
func (d driver) Register() {
	store.Register(store.Driver(d))
	for _, scheme := range d.Schemes {
		bucket.Register(scheme, objectsPlace)
	}
}

// unverified returns a server beyond this machine that is reached without TLS, or could be since the URL
// does not insist on it, or that is not verified.
func unverified(url string) string {
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return "" // it is valid
	}
	host := storeurl.Unverified(c.TLSConfig, c.Host)
	for _, f := range c.Fallbacks {
		host = cmp.Or(host, storeurl.Unverified(f.TLSConfig, f.Host))
	}
	return host
}

func openURL(ctx context.Context, url string, o store.Options) (store.Store, error) {
	s, err := Open(ctx, url, o)
	if err != nil {
		return nil, err // not s, which would be a nil *Store in an interface
	}
	return s, nil
}
