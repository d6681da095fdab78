package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// oldest is the first version of PostgreSQL that has all that is used: materialised parts of queries.
const oldest = 120000

// settings are what a server says of itself.
type settings struct {
	VersionNumber        int
	VersionText          string
	Encoding             string
	Fsync, Pages, Commit string
	Standbys             string // that commits wait for
	Following            int64  // servers that stream from it
}

const settingsSQL = `
SELECT current_setting('server_version_num')::int AS version_number, current_setting('server_version') AS version_text,
	current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync, current_setting('full_page_writes') AS pages,
	current_setting('synchronous_commit') AS commit, current_setting('synchronous_standby_names') AS standbys,
	(SELECT count(*) FROM pg_stat_replication) AS following`

// checkServer refuses a server that cannot keep a store, and warns of settings that keep less than they
// could.
func (s *Store) checkServer(ctx context.Context) error {
	conn, err := s.leases.Acquire(ctx)
	if err != nil {
		return failed("connect to PostgreSQL", err)
	}
	defer conn.Release()
	rows, _ := conn.Query(ctx, settingsSQL) // its error is that of the rows
	is, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[settings])
	if err != nil {
		return failed("read the settings of PostgreSQL", err)
	}
	if err := is.refused(); err != nil {
		return err
	}
	for _, w := range is.warnings() {
		s.log.Warn("the store may lose what was acknowledged", "reason", "PostgreSQL: "+w)
	}
	return nil
}

// refused says why there cannot be a store.
func (is *settings) refused() error {
	switch {
	case is.VersionNumber < oldest:
		return fmt.Errorf("store: PostgreSQL is version %s: %d or newer is needed", is.VersionText, oldest/10000)
	case is.Encoding != "UTF8":
		return fmt.Errorf("store: the database is encoded as %s: make one with ENCODING 'UTF8'", is.Encoding)
	}
	return nil
}

// warnings says what a server is set up to lose.
func (is *settings) warnings() (out []string) {
	if is.Fsync == "off" {
		out = append(out, "fsync is off: a crash of the machine loses what was acknowledged, and may damage the database; on keeps all")
	}
	if is.Pages == "off" {
		out = append(out, "full_page_writes is off: a crash of the machine may damage the database, unless its file system never writes half a page")
	}
	switch {
	case is.Standbys == "" && is.Following > 0:
		out = append(out, "it has standbys, of which none is synchronous (synchronous_standby_names is empty): "+
			"a failover loses what was acknowledged last")
	case is.Standbys != "" && is.Commit == "local":
		out = append(out, "synchronous_commit is local: commits do not wait for the synchronous standbys, "+
			"and a failover loses what was acknowledged last")
	}
	return out
}
