package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/cockroachdb/pebble/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// commits are what a client alone makes: so many, of so many records each, by so many callers.
type commits struct{ commits, records, callers int }

// value is of the size of a stored job.
var value = bytes.Repeat([]byte("v"), 330)

// each calls f for each commit, with its number and the caller's.
func (c commits) each(ctx context.Context, f func(ctx context.Context, i, caller int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, c.callers)
	var next atomic.Int64
	var all sync.WaitGroup
	for caller := range c.callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < c.commits && errs[caller] == nil; i = int(next.Add(1)) - 1 {
				if errs[caller] = f(ctx, i, caller); errs[caller] != nil {
					cancel()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// keys are those of the records of a commit.
func (c commits) keys(i int) (all []string) {
	for n := range c.records {
		all = append(all, fmt.Sprintf("bare/%d/%08x-reminder", c.records, i*c.records+n))
	}
	return all
}

func barePebble(t *testing.T, c commits) error {
	t.Helper()
	db, err := pebble.Open(realserver.Folder(t, ""), &pebble.Options{})
	if err != nil {
		return err
	}
	return errors.Join(c.each(t.Context(), func(_ context.Context, i, _ int) error {
		b := db.NewBatch()
		for _, key := range c.keys(i) {
			if err := b.Set([]byte(key), value, nil); err != nil {
				return err
			}
		}
		return b.Commit(pebble.Sync)
	}), db.Close())
}

// barePostgres has a connection for each caller, as far as the server takes them.
func barePostgres(t *testing.T, database string, c commits) error {
	t.Helper()
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return err
	}
	config.MaxConns = int32(min(c.callers, 64))
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `CREATE TABLE bare (key text PRIMARY KEY, value bytea)`); err != nil {
		return err
	}
	return c.each(t.Context(), func(ctx context.Context, i, _ int) error {
		if c.records == 1 {
			_, err := pool.Exec(ctx, `INSERT INTO bare VALUES ($1, $2)`, c.keys(i)[0], value)
			return err
		}
		_, err := pool.Exec(ctx, `INSERT INTO bare SELECT key, $2 FROM unnest($1::text[]) AS key`, c.keys(i), value)
		return err
	})
}

func bareRedis(t *testing.T, address string, c commits) error {
	t.Helper()
	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	if err != nil {
		return err
	}
	defer r.Close()
	text := rueidis.BinaryString(value)
	return c.each(t.Context(), func(ctx context.Context, i, _ int) error {
		set := r.B().Mset().KeyValue()
		for _, key := range c.keys(i) {
			set = set.KeyValue(key, text)
		}
		return r.Do(ctx, set.Build()).Error()
	})
}

// bareEtcd makes a commit of as many transactions as its records need: etcd takes 128 operations in one.
func bareEtcd(t *testing.T, address string, c commits) error {
	t.Helper()
	e, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	if err != nil {
		return err
	}
	defer e.Close()
	const most = 128
	text := string(value)
	return c.each(t.Context(), func(ctx context.Context, i, _ int) error {
		keys := c.keys(i)
		for len(keys) > 0 {
			n := min(most, len(keys))
			var ops []clientv3.Op
			for _, key := range keys[:n] {
				ops = append(ops, clientv3.OpPut(key, text))
			}
			if _, err := e.Txn(ctx).Then(ops...).Commit(); err != nil {
				return err
			}
			keys = keys[n:]
		}
		return nil
	})
}

// bareCassandra makes conditional batches, as a store that is fenced has to, in a partition for each caller.
func bareCassandra(t *testing.T, node *realserver.Cassandra, c commits) error {
	t.Helper()
	s, err := node.Session()
	if err != nil {
		return err
	}
	defer s.Close()
	for _, cql := range []string{
		`CREATE KEYSPACE IF NOT EXISTS bare WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
		fmt.Sprintf(`CREATE TABLE bare.rows%d (p int, n bigint, item int, last bigint static, value blob,
			PRIMARY KEY (p, n, item))`, c.records),
	} {
		if err := s.Query(cql).Exec(); err != nil {
			return err
		}
	}
	update := fmt.Sprintf(`UPDATE bare.rows%d SET last = ? WHERE p = ? IF last = `, c.records)
	insert := fmt.Sprintf(`INSERT INTO bare.rows%d (p, n, item, value) VALUES (?, ?, ?, ?)`, c.records)
	last := make([]int, c.callers)
	return c.each(t.Context(), func(_ context.Context, _, caller int) error {
		q := s.Batch(gocql.UnloggedBatch).SerialConsistency(gocql.Serial)
		if n := last[caller]; n == 0 {
			q.Query(update+`null`, 1, caller)
		} else {
			q.Query(update+`?`, n+1, caller, n)
		}
		last[caller]++
		for item := range c.records {
			q.Query(insert, caller, last[caller], item, value)
		}
		applied, rest, err := q.MapExecCAS(map[string]any{})
		if err == nil {
			err = rest.Close()
		}
		if err == nil && !applied {
			err = errors.New("a conditional batch was not applied")
		}
		return err
	})
}

// bareS3 puts an object for each commit.
func bareS3(t *testing.T, server *realserver.S3, c commits) error {
	t.Helper()
	s := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(server.Endpoint()), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.Key, server.Secret, "")})
	body := bytes.Repeat(value, c.records)
	return c.each(t.Context(), func(ctx context.Context, i, _ int) error {
		_, err := s.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("carillon"), Key: &c.keys(i)[0],
			Body: bytes.NewReader(body)})
		return err
	})
}
