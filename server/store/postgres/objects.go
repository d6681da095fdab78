package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// Objects are objects in two tables of a database, as in a bucket, for what is kept beside a store: of the
// same database or another one. An object is there when the transaction that has written it has ended.
//
// They are no partitions by day, which would be dropped as a whole: a day has objects that are referred to
// for years, and what is free in its partition would never be used again. In one table the objects of today
// take the place of those that were removed.
type Objects struct{ pool *pgxpool.Pool }

var (
	_ bucket.Bucket   = (*Objects)(nil)
	_ bucket.Streamer = (*Objects)(nil)
	_ bucket.Sizer    = (*Objects)(nil)
	_ bucket.Settler  = (*Objects)(nil)
)

const (
	// objectConns is how many connections there may be; pool_max_conns of the URL says otherwise.
	objectConns = 8
	// objectConnLife is how long a connection is used; pool_max_conn_lifetime of the URL says otherwise. One may
	// be to a server in whose place there is another one.
	objectConnLife = 30 * time.Second
	// chunkBytes of an object are in memory at a time.
	chunkBytes = 256 << 10

	codeNoTable    = "42P01"
	codeNoDatabase = "3D000"
	classNoLogin   = "28"
)

// objectTables is done when the first object is created. What is stored is not compressed: it may be already.
// Dead rows are looked for when there are some thousand, not when a fifth of the table is dead.
const objectTables = `
SELECT pg_advisory_xact_lock(hashtext('carillon_objects'));
CREATE TABLE IF NOT EXISTS carillon_objects (
	name    text COLLATE "C" PRIMARY KEY,
	version bigint NOT NULL UNIQUE,
	size    bigint NOT NULL,
	written timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE TABLE IF NOT EXISTS carillon_object_chunks (
	version bigint,
	number  int,
	data    bytea NOT NULL,
	PRIMARY KEY (version, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE carillon_object_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE carillon_objects IS 'Payloads that are kept apart from their jobs.';
COMMENT ON TABLE carillon_object_chunks IS 'What they hold, in order: 256 KiB each.'`

// Statements about objects.
const (
	objectSQL       = `SELECT version, size FROM carillon_objects WHERE name = $1`
	objectChunkSQL  = `SELECT data FROM carillon_object_chunks WHERE version = $1 AND number = $2`
	objectAddSQL    = `INSERT INTO carillon_objects (name, version, size) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING`
	objectChangeSQL = `UPDATE carillon_objects SET version = $2, size = $3, written = clock_timestamp()
		WHERE name = $1 AND version = $4`
	objectFillSQL   = `INSERT INTO carillon_object_chunks (version, number, data) VALUES ($1, $2, $3)`
	objectEmptySQL  = `DELETE FROM carillon_object_chunks WHERE version = $1`
	objectDeleteSQL = `WITH gone AS (DELETE FROM carillon_objects WHERE name = $1 RETURNING version)
		DELETE FROM carillon_object_chunks c USING gone WHERE c.version = gone.version`
	// What commits after an object was seen is on the standbys after it. Without any there is nothing to write.
	objectSettleSQL = `WITH done AS (UPDATE carillon_objects SET written = written
		WHERE name = $1 AND current_setting('synchronous_standby_names') <> '') SELECT ` + wholeSQL
	objectListSQL = `SELECT name, size, written FROM carillon_objects
		WHERE name > $1 AND name >= $2 AND ($3 = '' OR name < $3) ORDER BY name LIMIT $4`
)

// objectsPlace is the place that a URL names, for package bucket. It connects to nothing.
func objectsPlace(url string) (bucket.Place, error) {
	connect := func(ctx context.Context, _ *bucket.Watch) (bucket.Bucket, error) { return NewObjects(ctx, url) }
	return bucket.Place{Database: true, Connect: connect}, CheckURL(url)
}

// NewObjects returns the objects in the tables of a URL, as of [Open]. It does not connect yet.
func NewObjects(ctx context.Context, url string) (*Objects, error) {
	config, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = objectConns
	}
	if !strings.Contains(url, "pool_max_conn_lifetime=") {
		config.MaxConnLifetime = objectConnLife
	}
	withoutCancels(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, failed("connect to PostgreSQL", err)
	}
	return &Objects{pool}, nil
}

// Close ends all connections. Nothing else may be called any more.
func (o *Objects) Close() { o.pool.Close() }

// failed marks what will not pass by itself.
func (o *Objects) failed(err error) error {
	code := codeOf(err)
	if code == codeReadOnly { // new connections are to the server that takes writes, if there is one
		o.pool.Reset()
	}
	lasting := []string{codeNoRight, codeNoDatabase, codeNoSchema}
	if slices.Contains(lasting, code) || strings.HasPrefix(code, classNoLogin) || errors.Is(err, errSession) {
		return fmt.Errorf("%w: %w", bucket.ErrRefused, err)
	}
	return failed("objects in PostgreSQL", err)
}

// find returns the version and the size of an object.
func (o *Objects) find(ctx context.Context, name string) (version, size int64, err error) {
	err = o.pool.QueryRow(ctx, objectSQL, name).Scan(&version, &size)
	if errors.Is(err, pgx.ErrNoRows) || codeOf(err) == codeNoTable {
		return 0, 0, bucket.ErrAbsent
	}
	return version, size, o.failed(err)
}

// Size implements [bucket.Sizer].
func (o *Objects) Size(ctx context.Context, name string) (int64, error) {
	_, size, err := o.find(ctx, name)
	return size, err
}

func versionOf(version int64) bucket.Version { return bucket.Version(strconv.FormatInt(version, 10)) }

// Get implements [bucket.Bucket].
func (o *Objects) Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error) {
	version, size, err := o.find(ctx, name)
	if err != nil {
		return bucket.Object{}, err
	}
	if known == versionOf(version) {
		return bucket.Object{}, bucket.ErrSame
	}
	data, err := io.ReadAll(&objectReader{o: o, ctx: ctx, version: version, left: size})
	if err == nil && int64(len(data)) != size {
		err = fmt.Errorf("store: object %s has %d bytes, and should have %d", name, len(data), size)
	}
	return bucket.Object{Data: data, Version: versionOf(version)}, err
}

// Open implements [bucket.Streamer]. No connection is held while the caller does not read.
func (o *Objects) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	version, size, err := o.find(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(&objectReader{o: o, ctx: ctx, version: version, left: size}), size, nil
}

// objectReader reads an object, chunk by chunk.
type objectReader struct {
	o       *Objects
	ctx     context.Context
	version int64
	number  int
	left    int64 // bytes that have not come
	now     bytes.Reader
}

// Read implements [io.Reader].
func (r *objectReader) Read(p []byte) (int, error) {
	if r.now.Len() == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		var data []byte
		err := r.o.pool.QueryRow(r.ctx, objectChunkSQL, r.version, r.number).Scan(&data)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return r.ended()
		case err != nil:
			return 0, r.o.failed(err)
		case len(data) == 0: // it is damaged, as if it were not there
			return 0, io.EOF
		}
		data = data[:min(int64(len(data)), r.left)]
		r.number, r.left = r.number+1, r.left-int64(len(data))
		r.now.Reset(data)
	}
	return r.now.Read(p)
}

// ended is what a chunk means that is not there: the object was removed, or it is damaged.
func (r *objectReader) ended() (int, error) {
	var there bool
	err := r.o.pool.QueryRow(r.ctx, `SELECT EXISTS (SELECT FROM carillon_objects WHERE version = $1)`, r.version).Scan(&there)
	switch {
	case err != nil:
		return 0, r.o.failed(err)
	case there:
		return 0, io.EOF // who reads knows the size
	}
	return 0, errors.New("store: the object was removed while it was read")
}

// Create implements [bucket.Bucket], and creates the tables if they are not there: nothing else does.
func (o *Objects) Create(ctx context.Context, name string, data []byte) (bucket.Version, error) {
	v, err := o.write(ctx, name, bytes.NewReader(data), int64(len(data)), nil)
	if codeOf(err) == codeNoTable {
		if _, err := o.pool.Exec(ctx, objectTables, pgx.QueryExecModeSimpleProtocol); err != nil {
			return "", o.failed(err)
		}
		v, err = o.write(ctx, name, bytes.NewReader(data), int64(len(data)), nil)
	}
	return v, err
}

// CreateFrom implements [bucket.Streamer].
func (o *Objects) CreateFrom(ctx context.Context, name string, r io.ReadSeeker, size int64) error {
	switch _, _, err := o.find(ctx, name); {
	case err == nil: // its bytes need not be sent
		return bucket.ErrExists
	case !errors.Is(err, bucket.ErrAbsent):
		return err
	}
	_, err := o.write(ctx, name, r, size, nil)
	return err
}

// Replace implements [bucket.Bucket].
func (o *Objects) Replace(ctx context.Context, name string, data []byte,
	was bucket.Version) (bucket.Version, error) {
	old, err := strconv.ParseInt(string(was), 10, 64)
	if err != nil {
		return "", bucket.ErrChanged
	}
	return o.write(ctx, name, bytes.NewReader(data), int64(len(data)), &old)
}

// write writes an object, under a version of its own, in one transaction: what it holds first, so that nobody
// waits for another one who is slow. It replaces one of a version, or none.
func (o *Objects) write(ctx context.Context, name string, r io.Reader, size int64,
	old *int64) (bucket.Version, error) {
	version := rand.Int64()
	conn, err := o.pool.Acquire(ctx)
	if err != nil {
		return "", o.failed(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return "", o.failed(err)
	}
	if err = o.checkSession(tx.QueryRow(ctx, "SELECT "+wholeSQL)); err == nil {
		err = o.fill(ctx, tx, version, r, size)
	}
	if err == nil {
		err = o.name(ctx, tx, name, version, size, old)
	}
	if err != nil {
		if rolled := tx.Rollback(ctx); rolled != nil && ctx.Err() == nil {
			err = errors.Join(err, rolled)
		}
		return "", err
	}
	if err := cmp.Or(tx.Commit(ctx), replicated(conn.Conn().PgConn())); err != nil {
		return "", o.failed(err)
	}
	return versionOf(version), nil
}

// checkSession refuses a session that is not what it was made: its commits may not be durable, and nobody
// would tell. A pooler may give another one for each transaction.
func (o *Objects) checkSession(asked pgx.Row) error {
	var whole bool
	err := asked.Scan(&whole)
	if err == nil && !whole {
		err = errSession
	}
	return o.failed(err)
}

// fill writes what an object holds.
func (o *Objects) fill(ctx context.Context, tx pgx.Tx, version int64, r io.Reader, size int64) error {
	chunk := make([]byte, min(size, chunkBytes))
	for number := 0; size > 0; number++ {
		chunk = chunk[:min(size, chunkBytes)]
		if _, err := io.ReadFull(r, chunk); err != nil {
			return fmt.Errorf("what is to be written ends %d bytes too early: %w", size, err)
		}
		if _, err := tx.Exec(ctx, objectFillSQL, version, number, chunk); err != nil {
			return o.failed(err)
		}
		size -= int64(len(chunk))
	}
	return nil
}

// name gives what was written its name.
func (o *Objects) name(ctx context.Context, tx pgx.Tx, name string, version, size int64, old *int64) error {
	if old == nil {
		done, err := tx.Exec(ctx, objectAddSQL, name, version, size)
		if err == nil && done.RowsAffected() == 0 {
			return bucket.ErrExists
		}
		return o.failed(err)
	}
	done, err := tx.Exec(ctx, objectChangeSQL, name, version, size, *old)
	if err == nil && done.RowsAffected() == 0 {
		return bucket.ErrChanged
	}
	if err == nil {
		_, err = tx.Exec(ctx, objectEmptySQL, *old)
	}
	return o.failed(err)
}

// Settle implements [bucket.Settler]: an operator may have cancelled the wait of an object's writer for a
// synchronous standby. It can be seen then, and is on one server only.
func (o *Objects) Settle(ctx context.Context, name string) error {
	conn, err := o.pool.Acquire(ctx)
	if err != nil {
		return o.failed(err)
	}
	defer conn.Release()
	return cmp.Or(o.checkSession(conn.QueryRow(ctx, objectSettleSQL, name)),
		o.failed(replicated(conn.Conn().PgConn())))
}

// Delete implements [bucket.Bucket].
func (o *Objects) Delete(ctx context.Context, name string) error {
	_, err := o.pool.Exec(ctx, objectDeleteSQL, name)
	if codeOf(err) == codeNoTable {
		return nil
	}
	return o.failed(err)
}

// List implements [bucket.Bucket].
func (o *Objects) List(ctx context.Context, prefix, after string, limit int) (page bucket.Page, err error) {
	rows, err := o.pool.Query(ctx, objectListSQL, after, prefix, behind(prefix), limit+1)
	if err == nil {
		page.Entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e bucket.Entry, err error) {
			var written time.Time
			err = row.Scan(&e.Name, &e.Size, &written)
			e.Modified = written
			return e, err
		})
	}
	if codeOf(err) == codeNoTable {
		return bucket.Page{}, nil
	}
	if len(page.Entries) > limit {
		page.Entries, page.More = page.Entries[:limit], true
	}
	return page, o.failed(err)
}

// behind is the first name after all that begin with a prefix; empty: there is none.
func behind(prefix string) string {
	b := []byte(prefix)
	for i, c := range slices.Backward(b) {
		if c < 0x7f { // names are text
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}
