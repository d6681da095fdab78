package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/server/store"
)

// create makes the store if it is not there, and reads what it was created with.
func (s *Store) create(ctx context.Context) error {
	key := make([]byte, 32)
	rand.Read(key) // never fails
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
	if store.Extends(format) {
		if err := s.upgrade(ctx, format); err != nil {
			return err
		}
		format = store.Format()
	}
	if err := store.CheckFormat(format); err != nil {
		return err
	}
	partitions, err := strconv.Atoi(meta[1])
	if err != nil || partitions < 1 || partitions > store.MaxPartitions || len(meta[2]) != len(key) {
		return damaged
	}
	s.meta = store.Meta{Format: format, Partitions: partitions, MACKey: []byte(meta[2])}
	return nil
}

// upgrade makes a store of an older format one of this, unless nodes live that know only the older one.
func (s *Store) upgrade(ctx context.Context, from int) error {
	living, err := upgradeScript.Exec(ctx, s.client, leaser{s}.memberKeys(),
		[]string{strconv.Itoa(from), strconv.Itoa(store.Format())}).AsStrSlice()
	if err != nil {
		return failure(err)
	}
	if len(living) > 0 {
		slices.Sort(living)
		return fmt.Errorf("%w: the store's format is %d, and this carillon makes it %d; there live %s",
			store.ErrInUse, from, store.Format(), strings.Join(living, ", "))
	}
	return nil
}
