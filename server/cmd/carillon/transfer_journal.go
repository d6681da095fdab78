package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// following are the flags of a backup that goes on.
type following struct {
	follow bool
	every  time.Duration
}

const (
	everyDefault = 10 * time.Second
	leastEvery   = 100 * time.Millisecond
)

func (j *following) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&j.follow, "follow", false, "go on, and write to a folder or a bucket what changes, until the command is ended")
	cmd.Flags().DurationVar(&j.every, "every", everyDefault,
		"with --follow: how often there is a moment of which the store can be restored; nodes make nothing durable for some "+
			"milliseconds each time")
}

// idle is an error for a flag that has no effect without --follow.
func (j *following) idle() error {
	if j.every != everyDefault {
		return usagef("--every is for --follow")
	}
	return nil
}

// backup writes to a folder or a bucket until the command is ended.
func (j *following) backup(cmd *cobra.Command, a app, of *alive, url, place string) (err error) {
	switch {
	case !of.live:
		return usagef("--follow needs --live: nodes serve the store meanwhile")
	case j.every < leastEvery:
		return usagef("--every is %v: must be at least %v", j.every, leastEvery)
	}
	to, err := placeToWrite(cmd.Context(), a, place)
	if err != nil {
		return err
	}
	nodes, end, err := of.nodes(cmd.Context(), url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var fault error
	err = transfer.Follow(cmd.Context(), nodes, to, j.every, func(p transfer.Point) {
		if structured(cmd) {
			fault = errors.Join(fault, a.encode(cmd, p))
			return
		}
		line := fmt.Sprintf("%s  %8d  changes %d\n", p.Time.Format(transfer.PointTime), p.Number, p.Frames)
		fault = errors.Join(fault, a.print(line))
	})
	if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
		err = nil // it was ended
	}
	return errors.Join(err, fault)
}

// isBucket reports whether a place is the URL of a bucket.
func isBucket(place string) bool { return strings.Contains(place, "://") }

// placeToWrite returns the place of segments, which is made if it is a folder.
func placeToWrite(ctx context.Context, a app, place string) (transfer.Segments, error) {
	if isBucket(place) {
		return openBucket(ctx, a, place)
	}
	return transfer.Folder{Path: place, Warn: a.warning}, os.MkdirAll(place, 0o700)
}

func openBucket(ctx context.Context, a app, url string) (transfer.Segments, error) {
	switch at, err := bucket.Parse(url); {
	case err != nil:
		return nil, usagef("%v", err)
	case at.Database:
		return nil, usagef("%s is a database: a backup is a file, a folder, or the URL of a bucket", store.Redact(url))
	}
	b, err := transfer.OpenBucket(ctx, url, transfer.BucketOptions{Warn: a.warning})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// warning tells of something that does not end the command.
func (a app) warning(err error) { fmt.Fprintf(a.errs, "carillon: warning: %v\n", err) }

// backupToBucket adds what the store holds at one moment to what is in a bucket.
func (m *moving) backupToBucket(cmd *cobra.Command, a app, url string) (err error) {
	to, err := openBucket(cmd.Context(), a, url)
	if err != nil {
		return err
	}
	p := newProgress(a.errs)
	defer p.clear()
	var result transfer.Result
	var point transfer.Point
	if m.alive.live {
		nodes, end, err := m.alive.nodes(cmd.Context(), m.from)
		if err != nil {
			return err
		}
		point, err = transfer.AddPoint(cmd.Context(), nodes, to)
		if err := errors.Join(err, end()); err != nil {
			return err
		}
	} else {
		from, err := m.source(cmd.Context())
		if err != nil {
			return err
		}
		result, point, err = transfer.AddBase(cmd.Context(), from, to, counting(p, "written"))
		if err := errors.Join(err, from.Close()); err != nil {
			return err
		}
	}
	head, read, err := transfer.CheckJournal(cmd.Context(), to, point.Time)
	if err == nil && read != point {
		err = fmt.Errorf("%w: what was read back is not what was written: %+v, not %+v", transfer.ErrDamaged,
			read, point)
	}
	if err != nil {
		return err
	}
	p.clear()
	defer to.Tidy(cmd.Context(), point.Number)
	if m.alive.live {
		return restored{Partitions: head.Partitions, Taken: point.Time}.show(cmd, a,
			"written to "+url+", and read back")
	}
	return moved{result.Counts, result.Digest, head.Partitions, &point.Time}.show(cmd, a,
		"written to "+url+" as of "+point.Time.Format(transfer.PointTime)+", and read back")
}

// restorePoint restores what is in a folder or a bucket, or reads it only.
func (m *moving) restorePoint(cmd *cobra.Command, a app, from transfer.Segments,
	deposes transfer.Arrived) error {
	var until time.Time
	if m.until != "" {
		var err error
		if until, err = time.Parse(time.RFC3339Nano, m.until); err != nil {
			return usagef("--until is %q: must be a time such as 2026-11-28T09:30:00Z", m.until)
		}
	}
	p := newProgress(a.errs)
	defer p.clear()
	if m.check {
		head, point, err := transfer.CheckJournal(cmd.Context(), from, until)
		if err != nil {
			return err
		}
		p.clear()
		return restored{Partitions: head.Partitions, Taken: point.Time}.show(cmd, a, "whole")
	}
	result, point, err := transfer.RestoreJournal(cmd.Context(), from, until, m.target, counting(p, "restored"),
		deposes)
	if err != nil {
		return err
	}
	p.clear()
	return moved{Counts: result.Counts, Digest: result.Digest, Taken: &point.Time}.show(cmd, a,
		"restored as of "+point.Time.Format(transfer.PointTime))
}

// restored is what a folder or a bucket holds, as JSON.
type restored struct {
	Partitions int       `json:"partitions"`
	Taken      time.Time `json:"taken"`
}

func (r restored) show(cmd *cobra.Command, a app, said string) error {
	if structured(cmd) {
		return a.encode(cmd, r)
	}
	return a.print(fmt.Sprintf("%s, of %d partitions, as of %s\n", said, r.Partitions, r.Taken.Format(transfer.PointTime)))
}
