package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/mackey"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrNewer says that a newer version has written the database.
var ErrNewer = store.ErrNewerFormat

// ErrReplaced says that there is another store, or none, where there was the one that was opened.
var ErrReplaced = errors.New("the database has another store in the place of the one that was opened: start the node again")

// migrationLock keeps those who start at the same time from making the same tables.
const migrationLock = 0x6361_7269_6c6c_6f6e // "carillon"

// migrateTries is how often a start is tried where the server has no advisory locks, so that others can get
// in between.
const migrateTries = 10

// migrate brings the tables up to date, in one transaction, and reads what the store was created with.
func migrate(ctx context.Context, pool *pgxpool.Pool, o store.Options) (m store.Meta, err error) {
	for range migrateTries {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			m, err = migrateIn(ctx, tx, o)
			return err
		})
		if code := codeOf(err); !rolledBack(err) && code != codeUniqueViolated && code != codeDuplicateTable &&
			code != codeLockTimeout {
			break
		}
	}
	switch codeOf(err) {
	case codeNoRight:
		err = fmt.Errorf("%w (tables are made and changed by a start under a user who may; docs/stores.md says what rights the others need)", err)
	case codeNoSchema:
		err = fmt.Errorf("%w (search_path names a schema that is not there: CREATE SCHEMA)", err)
	}
	return m, failed("open the PostgreSQL database", err)
}

func migrateIn(ctx context.Context, tx pgx.Tx, o store.Options) (m store.Meta, err error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
		return m, err
	}
	version, err := schemaVersion(ctx, tx)
	if err == nil && version == 0 && o.Existing {
		err = store.ErrNoStore
	}
	if err != nil {
		return m, err
	}
	// in order of their names, which begin with the version
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return m, err
	}
	if version > len(files) {
		return m, fmt.Errorf("%w: its tables are of version %d, this carillon knows %d", ErrNewer,
			version, len(files))
	}
	if o.AsIs && version < len(files) {
		return m, fmt.Errorf("%w: its tables are of version %d, this carillon makes them %d", store.ErrOutdated, version, len(files))
	}
	if err := mayMigrate(ctx, tx, version, len(files)); err != nil {
		return m, err
	}
	for i, name := range files[version:] {
		if err := migrateTo(ctx, tx, version+i+1, name); err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
	}
	// Again: who became a member since. The migrations have locked out those that come.
	if err := mayMigrate(ctx, tx, version, len(files)); err != nil {
		return m, err
	}
	// What is refused is not changed: the build that made it goes on with it.
	if err := checkTables(ctx, tx); err != nil {
		return m, err
	}
	return readMeta(ctx, tx, o)
}

// additive are the migrations after which nodes of the version before go on: they add what those nodes need
// not know.
var additive = map[int]bool{2: true, 3: true}

// ErrInUse says that nodes live that know the tables only as they are.
var ErrInUse = store.ErrInUse

// mayMigrate refuses a change of the tables under nodes that could not go on with it.
func mayMigrate(ctx context.Context, tx pgx.Tx, from, to int) error {
	breaks := 0
	for v := from + 1; v <= to; v++ {
		if !additive[v] {
			breaks = v
		}
	}
	if breaks == 0 || from == 0 {
		return nil
	}
	var living string
	err := tx.QueryRow(ctx, `SELECT coalesce(string_agg(id || ' at ' || address, ', ' ORDER BY id), '') FROM carillon_members
		WHERE until > clock_timestamp()`).Scan(&living)
	if err != nil || living == "" {
		return err
	}
	return fmt.Errorf("%w: the tables are of version %d, and this carillon makes them %d; there live %s",
		ErrInUse, from, breaks, living)
}

// schemaVersion is how many migrations were done.
func schemaVersion(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var there bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass('carillon_migrations') IS NOT NULL").Scan(&there); err != nil {
		return 0, err
	}
	if !there {
		_, err = tx.Exec(ctx, "CREATE TABLE carillon_migrations (version integer PRIMARY KEY, done timestamptz NOT NULL DEFAULT now())")
		return 0, err
	}
	err = tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM carillon_migrations").Scan(&version)
	return version, err
}

func migrateTo(ctx context.Context, tx pgx.Tx, version int, name string) error {
	sql, err := migrations.ReadFile(name)
	if err != nil {
		return err
	}
	// An index of a large table takes its time.
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, string(sql), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO carillon_migrations (version) VALUES ($1)", version)
	return err
}

// readMeta reads what the store was created with; a store without is created.
func readMeta(ctx context.Context, tx pgx.Tx, o store.Options) (m store.Meta, err error) {
	_, err = tx.Exec(ctx, `INSERT INTO carillon_meta (format, partitions, key_6) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		store.Format(), o.Partitions, mackey.New(o.MACKey))
	if err != nil {
		return m, err
	}
	row := tx.QueryRow(ctx, "SELECT format, partitions, key_6 FROM carillon_meta")
	if err := row.Scan(&m.Format, &m.Partitions, &m.MACKey); err != nil {
		return m, err
	}
	if err := store.CheckFormat(m.Format); err != nil {
		return m, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO carillon_owners (partition, epoch) SELECT generate_series(0, $1::int), $2 ON CONFLICT DO NOTHING`,
		m.ProvingGround(), int64(o.Epoch))
	return m, err
}
