package pebble

import (
	"cmp"
	"log/slog"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon/server/store"
)

// Options of a store. The zero value is right for a node with a disk of its own.
type Options struct {
	// Partitions is the number of partitions of a new store; 0: [store.DefaultPartitions]. An existing store
	// keeps its own.
	Partitions int
	// MACKey and Epoch are those of a new store, Existing allows none: see [store.Options].
	MACKey   []byte
	Epoch    uint64
	Existing bool
	AsIs     bool // see [store.Options]
	// MemTableBytes is how much is written before it is sorted into a table. Up to three are in memory while
	// the disk is slow; the log to be read at Open is as long. It grows to this from 256 KiB. 0: 32 MiB.
	MemTableBytes int
	// InlineSpec is the longest spec, in bytes, that is kept with the state. Longer ones are written once,
	// under a key of their own, and read separately. 0: 1 KiB, which is what the engine asks Due for;
	// negative: none.
	InlineSpec int
	// RetryAfter is how long after a failure of the disk, and after a failed attempt, the store tries to
	// write again. 0: 1 s; negative: never.
	RetryAfter time.Duration
	// Now is the store's clock, which judges leases. nil: time.Now.
	Now func() time.Time
	// Events are called on what happens inside; the zero value calls nothing. They must return soon and not
	// call the store.
	Events store.Events
	// Log gets what operators should know, and Pebble's messages. nil: no log.
	Log store.Logger
	// FS is the file system; nil: the system's. Tests use one that crashes or fails. A folder on a given FS
	// is not checked to be local.
	FS vfs.FS
}

// Defaults of the options.
const (
	defaultMemTableBytes = 32 << 20
	defaultInlineSpec    = 1 << 10
	defaultRetryAfter    = time.Second
)

const (
	// commitBytes is approximately how much one fsync covers at most.
	commitBytes = 2 << 20
	// cacheBytes is how much of the tables is cached in memory uncompressed, beside the system's file cache.
	cacheBytes = 32 << 20
	// headCacheBytes is the size of the cache of heads that were just read or written, so that they need not
	// be read again to be replaced: about 100 bytes a record.
	headCacheBytes = 8 << 20
)

// withDefaults fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	o.Partitions = cmp.Or(o.Partitions, store.DefaultPartitions)
	if err := store.CheckPartitions(o.Partitions); err != nil {
		return o, err
	}
	if o.MemTableBytes <= 0 {
		o.MemTableBytes = defaultMemTableBytes
	}
	o.InlineSpec = cmp.Or(o.InlineSpec, defaultInlineSpec)
	o.RetryAfter = cmp.Or(o.RetryAfter, defaultRetryAfter)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.FS, o.Log = cmp.Or(o.FS, vfs.Default), cmp.Or[store.Logger](o.Log, slog.New(slog.DiscardHandler))
	return o, nil
}

// formatMajorVersion is Pebble's own format; it is part of store.Format.
const formatMajorVersion = pebbledb.FormatValueSeparation

// pebbleOptions returns Pebble's options for a folder in files.
func (o *Options) pebbleOptions(files vfs.FS, l *listener, readOnly, mustExist bool) *pebbledb.Options {
	const memTables = 3
	p := &pebbledb.Options{
		FS:                 files,
		ReadOnly:           readOnly,
		ErrorIfNotExists:   mustExist,
		FormatMajorVersion: formatMajorVersion,
		// Pebble takes the memory tables out of the cache, so they are added.
		CacheSize:                   cacheBytes + memTables*int64(o.MemTableBytes),
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: memTables,
		// Flushed tables overlap in every partition, so wait for a few before merging them, and stall late.
		L0CompactionThreshold:      4,
		L0StopWritesThreshold:      24,
		LBaseMaxBytes:              64 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		MaxOpenFiles:               1000,
		Logger:                     l,
		EventListener:              l.events(),
	}
	// A put of a new record and a finished run look for an absent key: the filter answers.
	for i := range p.Levels {
		p.Levels[i].BlockSize = 16 << 10
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		p.Levels[i].FilterType = pebbledb.TableFilter
	}
	p.ApplyCompressionSettings(func() pebbledb.DBCompressionSettings { return pebbledb.DBCompressionFastest })
	return p
}
