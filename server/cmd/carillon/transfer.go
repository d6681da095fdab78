package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/repartition"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// moving is what `carillon backup`, `restore` and `migrate` have in common.
type moving struct {
	from, to string // URLs of stores
	check    bool
	until    string
	alive    alive
	journal  following
	parts    int // of the store to fill; 0: as many as there were
	depose   string
	keys     server.Encryption
}

// addPartitions adds the flag that gives a store another number of partitions.
func (m *moving) addPartitions(cmd *cobra.Command) {
	cmd.Flags().IntVar(&m.parts, "partitions", 0, "partitions of the store to fill; default: as many as there were")
}

// shape is what becomes of what moves.
func (m *moving) shape(cmd *cobra.Command) (transfer.Reshape, error) {
	switch {
	case !cmd.Flags().Changed("partitions"):
		return transfer.AsIs, nil
	case m.parts < 1 || m.parts > store.MaxPartitions:
		return nil, usagef("--partitions is %d: a store has 1 to %d", m.parts, store.MaxPartitions)
	case m.alive.live:
		return nil, usagef("--partitions and --live do not go together: stop the nodes, and run the command without --live")
	}
	return repartition.To(m.parts), nil
}

// encrypted has what moves encrypted again, if there are keys.
func (m *moving) encrypted(cmd *cobra.Command, shape transfer.Reshape) (transfer.Reshape, error) {
	box, err := boxOf(&m.keys)
	switch {
	case err != nil || box == nil:
		return shape, err
	case cmd.Flags().Changed("partitions"):
		return nil, usagef("--encryption-keys and --partitions do not go together: move twice")
	case m.alive.live:
		return nil, usagef("--encryption-keys and --live do not go together: stop the nodes, and run the command without --live")
	}
	return box.Renew, nil
}

// whileStopped is a part of the help of commands that read a store.
const whileStopped = `Without --live the nodes of the store must be stopped; the command names those that live. It claims all
partitions meanwhile, so that none can begin.`

// newBackup returns the command `carillon backup`.
func newBackup(a app) *cobra.Command {
	var m moving
	cmd := &cobra.Command{
		Use:   "backup FILE|BUCKET --store URL",
		Short: "Write everything that a store holds to a file or a bucket",
		Long: `Write everything that a store holds to a new file: jobs, runs, history, settings. It can be restored into a store of any
kind. ` + whileStopped + `

With --live the nodes go on meanwhile. What is written is the state of one moment, in which no node makes
anything durable; it takes some milliseconds. The contents are collected in a folder beside the file first.

With --follow the command goes on until it is ended, and FILE is a folder, to which it writes what changes. Each file of it ends with such a
moment, and the store can be restored as of any of them. Each start of the command begins with all contents. Files
from before one whose name ends with -base can be removed if nothing older than its time is to be restored.

In place of FILE there may be a bucket, as in the URLs of stores: s3://BUCKET/PREFIX, gs://… or azblob://…, with the same
parameters and credentials. It is as such a folder, to which each call adds. Nothing is kept on this machine's disk.

The file is a secret, as the store is: whoever has it can make tokens that nodes take. Only its owner may read it.`,
		Example: `carillon backup --store pebble:/var/lib/carillon carillon.backup
carillon backup --store pebble:/var/lib/carillon --live carillon.backup
carillon backup --store postgres://localhost/carillon --live --follow --every 10s /backups/carillon
carillon backup --store postgres://localhost/carillon --live --follow --every 1m s3://bucket/carillon-backup`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error { return m.backup(cmd, a, words[0]) },
	}
	cmd.Flags().StringVar(&m.from, "store", "", "`url` of the store, as of serve (required)")
	m.alive.addFlags(cmd)
	m.journal.addFlags(cmd)
	addOutput(cmd)
	return cmd
}

// newRestore returns the command `carillon restore`.
func newRestore(a app) *cobra.Command {
	var m moving
	cmd := &cobra.Command{
		Use:   "restore FILE|BUCKET --store URL",
		Short: "Fill a new store with what a backup holds",
		Long: `Fill a new store with what carillon backup wrote, of the same kind or another, and read it back. There must be no store
yet where it is to be. FILE may be the folder of backup --follow, or the URL of a bucket. If the command does not come to its end, run it
again: until then no node serves the store.

With --partitions the new store gets another number of partitions, as by carillon migrate. FILE is a file then.

With --depose the store that was backed up is marked as moved when everything has been read back, and before a node can
serve the new one: so no job is fired by both. With --live its nodes serve it until then, and end; otherwise they must
be stopped. --live reads all that they hold once more, so it takes as long as a backup; nodes that have ended by then, as
after an earlier run of the command, need not be started again. What it holds stays there, and is not in the new store if it came after the backup.

Run ids and tokens stay good. What was due meanwhile is late when a node starts, and its job's misfire policy says what
becomes of it.`,
		Example: `carillon restore --store postgres://localhost/carillon carillon.backup
carillon restore --store postgres://localhost/carillon --until 2026-11-28T09:30:00Z /backups/carillon
carillon restore --store pebble:/var/lib/carillon s3://bucket/carillon-backup
carillon restore --store postgres://localhost/carillon --partitions 256 carillon.backup
carillon restore --store postgres://localhost/new --depose postgres://localhost/old --live carillon.backup
carillon restore --check carillon.backup`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error { return m.restore(cmd, a, words[0]) },
	}
	cmd.Flags().StringVar(&m.to, "store", "", "`url` of the store to fill, as of serve")
	cmd.Flags().BoolVar(&m.check, "check", false, "read the backup to its end only, and tell what it holds")
	cmd.Flags().StringVar(&m.until, "until", "",
		"of a folder or a bucket: what the store held at the last moment there is at or before this `time`, as of RFC 3339")
	m.addPartitions(cmd)
	cmd.Flags().StringVar(&m.depose, "depose", "", "`url` of the store that was backed up, which no node is to serve any more")
	m.alive.addFlags(cmd)
	addOutput(cmd)
	return cmd
}

// newMigrate returns the command `carillon migrate`.
func newMigrate(a app) *cobra.Command {
	var m moving
	cmd := &cobra.Command{
		Use:   "migrate --from URL --to URL",
		Short: "Move everything from a store to another, of any kind",
		Long: `Move everything from a store to another, of any kind, and read it back. ` + whileStopped + `
There must be no store yet where it is to go. If the command does not come to its end, run it again: until then no
node serves the new store, and the old one is as it was. Afterwards no node serves the old one.

With --live the nodes serve the store meanwhile. When everything has been copied, with what has changed since,
all nodes stop for the seconds that it takes to compare the two stores. Then the old one is marked as moved, and its
nodes end: start them with the new store. If the command ends before, the nodes go on.

With --partitions the new store gets another number of partitions, and every record the place that it has among
them. The nodes must be stopped. Ids of runs are written otherwise in the new store; the old ones, and tokens that
workers have, stay good. Watches of events and their positions end.

What is encrypted moves as it is, and needs no key. With --encryption-keys all of it is encrypted with the primary key
of the file, also what was readable before or was encrypted with an older key. The nodes must be stopped.`,
		Example: `carillon migrate --from pebble:/var/lib/carillon --to postgres://localhost/carillon
carillon migrate --from pebble:/var/lib/carillon --live --to postgres://localhost/carillon
carillon migrate --from postgres://localhost/carillon --live --to s3://bucket/carillon
carillon migrate --from pebble:/var/lib/carillon --to pebble:/var/lib/carillon-256 --partitions 256
carillon migrate --from pebble:/var/lib/carillon --to pebble:/var/lib/carillon-2 --encryption-keys keys.json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.migrate(cmd, a) },
	}
	cmd.Flags().StringVar(&m.from, "from", "", "`url` of the store to move, as of serve (required)")
	m.alive.addFlags(cmd)
	cmd.Flags().StringVar(&m.to, "to", "", "`url` of the store to fill (required)")
	m.addPartitions(cmd)
	addKeys(cmd.Flags(), &m.keys, "`file` of keys, as of serve, with which everything is encrypted again; default: it stays as it is")
	addOutput(cmd)
	return cmd
}

// lasting checks the URL of a flag.
func lasting(flag, url string) error {
	switch {
	case url == "":
		return usagef("--%s is missing: the URL of a store", flag)
	case strings.HasPrefix(url, "memory:"):
		return usagef("--%s is %s, which keeps nothing", flag, url)
	}
	if err := store.CheckURL(url); err != nil {
		return usagef("--%s: %v", flag, err)
	}
	return nil
}

// source opens the store to read, which must be there.
func (m *moving) source(ctx context.Context) (store.Store, error) {
	return store.Open(ctx, m.from, store.Options{Existing: true})
}

func (m *moving) target(ctx context.Context, o store.Options) (store.Store, error) {
	return store.Open(ctx, m.to, o)
}

// counting shows how much has been moved.
func counting(p *progress, what string) transfer.Progress {
	return func(c transfer.Counts) {
		p.show(fmt.Sprintf("%s: %d jobs and pending runs, %d finished runs", what, c.Records, c.Runs), 0, 0)
	}
}

// moved is the result as JSON.
type moved struct {
	transfer.Counts
	Digest     transfer.Digest `json:"digest"`
	Partitions int             `json:"partitions,omitempty"`
	Taken      *time.Time      `json:"taken,omitempty"`
}

func (m moved) show(cmd *cobra.Command, a app, said string) error {
	if structured(cmd) {
		return a.encode(cmd, m)
	}
	return a.print(fmt.Sprintf("%s: %d jobs and pending runs, %d finished runs, %d other records\ndigest %s\n", said,
		m.Records, m.Runs, m.Meta, m.Digest))
}

func (m *moving) backup(cmd *cobra.Command, a app, name string) error {
	if err := errors.Join(lasting("store", m.from), m.alive.check(cmd)); err != nil {
		return err
	}
	if m.journal.follow {
		return m.journal.backup(cmd, a, &m.alive, m.from, name)
	}
	if err := m.journal.idle(); err != nil {
		return err
	}
	if isBucket(name) {
		return m.backupToBucket(cmd, a, name)
	}
	p := newProgress(a.errs)
	defer p.clear()
	var result transfer.Result
	err := newFile(name, func(f *os.File) (err error) {
		open := m.source
		if m.alive.live {
			folder, err := os.MkdirTemp(filepath.Dir(name), filepath.Base(name)+".copy-*")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
			if open, err = m.alive.copied(cmd.Context(), m.from, folder, counting(p, "copied")); err != nil {
				return err
			}
		}
		from, err := open(cmd.Context())
		if err != nil {
			return err
		}
		result, err = transfer.Backup(cmd.Context(), from, f, time.Now(), counting(p, "written"))
		if err := errors.Join(err, from.Close()); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, _, read, err := transfer.Verify(cmd.Context(), f, counting(p, "read back"))
		if err == nil && read != result {
			err = fmt.Errorf("%w: what was read back is not what was written", transfer.ErrDamaged)
		}
		return err
	})
	if err != nil {
		return err
	}
	p.clear()
	return moved{Counts: result.Counts, Digest: result.Digest}.show(cmd, a, "written to "+name+", and read back")
}

// newFile makes a file, which is there under its name only when it is whole and durable.
func newFile(name string, write func(*os.File) error) (err error) {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return usagef("%s is there already, or cannot be looked at: name a new file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-*") // only for its owner to read
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = os.Link(f.Name(), name)
	switch {
	case errors.Is(err, fs.ErrExist): // somebody has made one meanwhile
	case err == nil:
		err = os.Remove(f.Name())
	default: // a file system without links
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes the names in a folder durable.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// deposes returns what takes the old store out of service when the new one has been filled.
func (m *moving) deposes(cmd *cobra.Command) (transfer.Arrived, error) {
	if err := m.alive.check(cmd); err != nil {
		return nil, err
	}
	switch {
	case m.depose == "" && m.alive.live:
		return nil, usagef("--live is for --depose: the nodes of that store")
	case m.depose == "":
		return nil, nil
	case m.check:
		return nil, usagef("--check reads the backup only: leave --depose out")
	case m.depose == m.to:
		return nil, usagef("--depose and --store are the same store")
	}
	if err := lasting("depose", m.depose); err != nil {
		return nil, err
	}
	return func(ctx context.Context, h transfer.Head) (err error) {
		defer func() {
			if err != nil {
				err = fmt.Errorf("the store to depose: %w; the new one is filled, and no node serves it until this command is run "+
					"again", err)
			}
		}()
		if m.alive.live {
			return m.alive.depose(ctx, m.depose, h)
		}
		return deposeStopped(ctx, m.depose, h)
	}, nil
}

// deposeStopped takes a store out of service whose nodes are stopped.
func deposeStopped(ctx context.Context, url string, h transfer.Head) error {
	old, err := store.Open(ctx, url, store.Options{Existing: true})
	if err != nil {
		return err
	}
	return errors.Join(transfer.Depose(ctx, old, h), old.Close())
}

func (m *moving) restore(cmd *cobra.Command, a app, name string) error {
	deposes, err := m.deposes(cmd)
	if err != nil {
		return err
	}
	switch {
	case m.check && m.to != "":
		return usagef("--check reads the backup only: leave --store out")
	case m.check && cmd.Flags().Changed("partitions"):
		return usagef("--check reads the backup only: leave --partitions out")
	case !m.check:
		if err := lasting("store", m.to); err != nil {
			return err
		}
	}
	if isBucket(name) {
		if cmd.Flags().Changed("partitions") {
			return usagef("--partitions is for a backup in one file: restore %s as it is, and then use carillon migrate --partitions", name)
		}
		from, err := openBucket(cmd.Context(), a, name)
		if err != nil {
			return err
		}
		return m.restorePoint(cmd, a, from, deposes)
	}
	shape, err := m.shape(cmd)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return err
	case info.IsDir() && cmd.Flags().Changed("partitions"):
		return usagef("--partitions is for a backup in one file: restore the folder %s as it is, and then use carillon migrate "+
			"--partitions", name)
	case info.IsDir():
		return m.restorePoint(cmd, a, transfer.Folder{Path: name}, deposes)
	case m.until != "":
		return usagef("--until is for the folders of backup --follow: %s is a file, of one moment", name)
	}
	p := newProgress(a.errs)
	defer p.clear()
	if m.check {
		head, taken, result, err := transfer.Verify(cmd.Context(), f, counting(p, "read"))
		if err != nil {
			return err
		}
		p.clear()
		return moved{result.Counts, result.Digest, head.Partitions, &taken}.show(cmd, a,
			fmt.Sprintf("whole, of %d partitions, taken %s", head.Partitions, taken.Format(time.RFC3339)))
	}
	// A backup that is not whole is to leave no half of a store behind.
	if _, _, _, err := transfer.Verify(cmd.Context(), f, counting(p, "read")); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	result, err := transfer.RestoreAs(cmd.Context(), f, m.target, shape, counting(p, "restored"), deposes)
	if err != nil {
		return err
	}
	p.clear()
	return moved{Counts: result.Counts, Digest: result.Digest}.show(cmd, a, "restored, and read back")
}

func (m *moving) migrate(cmd *cobra.Command, a app) error {
	if err := errors.Join(lasting("from", m.from), lasting("to", m.to), m.alive.check(cmd)); err != nil {
		return err
	}
	if m.from == m.to {
		return usagef("--from and --to are the same store")
	}
	shape, err := m.shape(cmd)
	if err != nil {
		return err
	}
	if shape, err = m.encrypted(cmd, shape); err != nil {
		return err
	}
	p := newProgress(a.errs)
	defer p.clear()
	if m.alive.live {
		result, err := m.alive.migrate(cmd.Context(), m.from, m.target, counting(p, "moved"))
		if err != nil {
			return err
		}
		p.clear()
		return moved{Counts: result.Counts, Digest: result.Digest}.show(cmd, a,
			"moved, and compared: start the nodes with the new store")
	}
	from, err := m.source(cmd.Context())
	if err != nil {
		return err
	}
	result, err := transfer.MigrateAs(cmd.Context(), from, m.target, shape, counting(p, "moved"))
	if err := errors.Join(err, from.Close()); err != nil {
		return err
	}
	p.clear()
	return moved{Counts: result.Counts, Digest: result.Digest}.show(cmd, a, "moved, and read back")
}
