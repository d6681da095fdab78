package payload

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// ownerName is the object that says which store of jobs the payloads belong to. Whoever collects payloads
// removes what its own store does not refer to, so two stores in one place would lose theirs.
const ownerName = objectsFolder + "/OWNER"

// ownerText is what that object holds for a store of jobs: it tells stores apart, and their keys stay secret.
func ownerText(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("carillon.payload-store"))
	return []byte(hex.EncodeToString(mac.Sum(nil)) + "\n")
}

// owner is what a store knows of who owns its place.
type owner struct {
	text   []byte        // of its own store of jobs
	asking chan struct{} // capacity 1; filled while the place is asked
	ours   atomic.Bool   // it was seen to be the owner
}

func newOwner(key []byte) owner { return owner{text: ownerText(key), asking: make(chan struct{}, 1)} }

// errOwned is the error of a place that belongs to another store of jobs.
var errOwned = errors.New("it belongs to another store of jobs (its " + ownerName + " says so, but not to which): " +
	"give another folder or prefix; if that other store is gone for good, and its payloads are, too, remove that object")

// errNotWhole is the error of a place that is not as it was left.
var errNotWhole = errors.New("its " + ownerName + " is missing: the folder is not mounted, or the place was emptied; " +
	"mount it, or restore that object")

// own makes sure that the place belongs to the store of jobs of this node, and takes it if it is empty.
func (s *Store) own(ctx context.Context) error {
	if s.owner.ours.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	select {
	case s.owner.asking <- struct{}{}:
		defer func() { <-s.owner.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := s.owned(ctx)
	if errors.Is(err, errNotWhole) {
		err = s.take(ctx)
	}
	if err == nil {
		s.owner.ours.Store(true)
	}
	return err
}

// owned returns nil if the place belongs to the store of jobs of this node, otherwise [errOwned],
// [errNotWhole] or why it cannot be told.
func (s *Store) owned(ctx context.Context) error {
	has, err := s.objects.Get(ctx, s.prefix+ownerName, "")
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return errNotWhole
	case err != nil:
		return err
	case !bytes.Equal(has.Data, s.owner.text):
		return errOwned
	}
	return nil
}

// take makes the store of jobs of this node the owner of a place without one. It must not have objects: they
// would be those of an owner that is lost.
func (s *Store) take(ctx context.Context) error {
	err := s.objects.Each(ctx, s.prefix+objectsFolder+"/", "", func(e bucket.Entry) error {
		day, _, _ := strings.Cut(strings.TrimPrefix(e.Name, s.prefix+objectsFolder+"/"), "/")
		if isDay(day) {
			return fmt.Errorf("there is %s, but %w", e.Name, errNotWhole)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = s.objects.Create(ctx, s.prefix+ownerName, s.owner.text)
	if err != nil && !errors.Is(err, bucket.ErrExists) {
		return err
	}
	return s.owned(ctx) // another store may have been faster
}

// absent returns what it means that an object is not there: nothing, if the place is not what it was.
func (s *Store) absent(ctx context.Context, err error) error {
	if !errors.Is(err, bucket.ErrAbsent) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if away := s.owned(ctx); away != nil {
		return fmt.Errorf("the payload store: %w", away)
	}
	return err
}
