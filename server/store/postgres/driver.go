package postgres

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

func init() {
	store.Register(store.Driver{
		Schemes: []string{"postgres", "postgresql"}, Form: `"postgres://…" (a PostgreSQL database)`, Shared: true,
		Check: CheckURL, Open: openURL,
		Redact: func(url string) string { return store.RedactURL(url, false) }, // a parameter may be a password
	})
}

func openURL(ctx context.Context, url string, o store.Options) (store.Store, error) {
	s, err := Open(ctx, url, o)
	if err != nil {
		return nil, err // not s, which would be a nil *Store in an interface
	}
	return s, nil
}
