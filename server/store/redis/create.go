package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/mackey"
)

// create makes the store if it is not there, and reads what it was created with.
func (s *Store) create(ctx context.Context) error {
	if s.opt.Existing {
		is, err := s.client.Do(ctx, s.client.B().Exists().Key(storeKey(s.opt.Prefix, "meta")).Build()).AsBool()
		if err != nil {
			return failure(err)
		}
		if !is {
			return store.ErrNoStore
		}
	}
	key := mackey.New(s.opt.MACKey)
	meta, err := createScript.Exec(ctx, s.client, []string{storeKey(s.opt.Prefix, "meta")},
		[]string{strconv.Itoa(store.Format()), strconv.Itoa(s.opt.Partitions), string(key)}).AsStrSlice()
	if err != nil {
		return failure(err)
	}
	damaged := fmt.Errorf("%w: the key %s", store.ErrDamaged, storeKey(s.opt.Prefix, "meta"))
	if len(meta) != 3 {
		return damaged
	}
	format, err := strconv.Atoi(meta[0])
	if err != nil || format < 1 {
		return damaged
	}
	if !store.Extends(format) {
		if err := store.CheckFormat(format); err != nil {
			return err
		}
	}
	if err := store.CheckAsIs(format, s.opt.AsIs); err != nil {
		return err
	}
	partitions, err := strconv.Atoi(meta[1])
	if err != nil || partitions < 1 || partitions > store.MaxPartitions || len(meta[2]) != len(key) {
		return damaged
	}
	if store.Extends(format) {
		if err := s.upgrade(ctx, format, partitions); err != nil {
			return err
		}
		format = store.Format()
	}
	s.meta = store.Meta{Format: format, Partitions: partitions, MACKey: []byte(meta[2])}
	return nil
}

// begin has the terms of partitions that were never claimed begin above an epoch, if there is one.
func (s *Store) begin(ctx context.Context) error {
	if s.opt.Epoch == 0 {
		return nil
	}
	return each(len(s.keys), func(p int) error {
		key := s.keys[p][keyOwner]
		for _, f := range [][2]string{{"nonce", "0"}, {"node", ""}, {"until", "0"}, {"ttl", "0"},
			{"epoch", strconv.FormatUint(s.opt.Epoch, 10)}} {
			set := s.client.B().Hsetnx().Key(key).Field(f[0]).Value(f[1]).Build()
			if err := s.client.Do(ctx, set).Error(); err != nil {
				return failure(err)
			}
		}
		return nil
	})
}

// upgrade makes a store of an older format one of this, unless nodes live that know only the older one. Where
// it is cut off, the next start goes on; several nodes may do it at once.
func (s *Store) upgrade(ctx context.Context, from, partitions int) error {
	was, becomes := strconv.Itoa(from), strconv.Itoa(store.Format())
	keys := leaser{s}.memberKeys()
	living, err := upgradeScript.Exec(ctx, s.client, keys, []string{was}).AsStrSlice()
	if err != nil {
		return failure(err)
	}
	if err := store.CheckUnused(from, living); err != nil {
		return err
	}
	s.opt.Log.Warn("the store is of an older format: what it lacks is made, which may take a minute",
		"format", from, "becomes", store.Format())
	steps := []string{"begin", "jobs", "pending", "runs", "dead", "end"}
	if from >= listedSince {
		steps = []string{"begin", "end"}
	}
	if err := each(partitions+1, func(p int) error { return s.extend(ctx, p, becomes, steps) }); err != nil {
		return err
	}
	_, err = ask(ctx, s, func(ctx context.Context) (int64, error) {
		return upgradedScript.Exec(ctx, s.client, keys[1:], []string{was, becomes}).AsInt64()
	})
	return err
}

// listedSince is the format since which a store has the lists that the steps of extend make.
const listedSince = 3

// extend builds what a partition of an older format lacks, by the steps of the script.
func (s *Store) extend(ctx context.Context, partition int, becomes string, steps []string) error {
	of := partitionKeys(s.opt.Prefix, partition)
	keys := []string{of[keyOwner], of[keyState], of[keyJobs], of[keyPending], of[keyPhases], of[keyRuns],
		of[keyHistory], of[keyFinished], partitionKey(s.opt.Prefix, partition, deadKey)}
	for _, step := range steps {
		for from, more := "", true; more; more = from != "" {
			next, err := ask(ctx, s, func(ctx context.Context) (string, error) {
				return extendScript.Exec(ctx, s.client, keys,
					[]string{becomes, step, from, strconv.Itoa(pageItems)}).ToString()
			})
			if err != nil {
				return err
			}
			from = next
		}
	}
	return nil
}
