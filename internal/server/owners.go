package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/carillonhq/carillon/store"
)

// localName is the node's on a store that only this process can use.
const localName = "local"

// defaultName is the node's if none is given.
func defaultName(storeURL string) string {
	scheme, _, _ := strings.Cut(storeURL, ":")
	if !shared(scheme) {
		return localName
	}
	host, err := os.Hostname()
	if err != nil {
		host = localName
	}
	return host + "-" + rand.Text()[:8]
}

// awaitOwners waits until the partitions that others hold are free or their leases have ended, as they do some seconds after a
// node was killed. A lease that is renewed meanwhile is of a node that lives: the store has no room for two yet.
func (n *Node) awaitOwners(ctx context.Context) error {
	first, now, err := n.othersLeases(ctx)
	if err != nil || len(first) == 0 {
		return err
	}
	wait := time.Duration(0)
	for _, o := range first {
		wait = max(wait, o.Until.Sub(now))
	}
	n.config.Log.Info("waiting for the leases of another node to end", "node", first[0].Node, "partitions", len(first), "longest", wait)
	for len(first) > 0 {
		t := time.NewTimer(leaseLook)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("store: node %q holds %d partitions: %w", first[0].Node, len(first), ctx.Err())
		}
		again, _, err := n.othersLeases(ctx)
		if err != nil {
			return err
		}
		if o, ok := renewed(first, again); ok {
			return fmt.Errorf("store: node %q uses it, under a lease until %s: end that node first; a store for several nodes is not "+
				"supported yet", o.Node, o.Until.UTC().Format(time.RFC3339))
		}
		first = again
	}
	return nil
}

// leaseLook is how often the leases of others are looked at.
const leaseLook = 250 * time.Millisecond

// othersLeases are the partitions that other nodes hold, and the store's clock.
func (n *Node) othersLeases(ctx context.Context) (held []store.Owner, now time.Time, err error) {
	l := n.store.Leaser()
	if now, err = l.Now(ctx); err != nil {
		return nil, now, err
	}
	owners, err := l.Owners(ctx)
	for _, o := range owners {
		if o.Node != "" && o.Node != n.config.Name && o.Until.After(now) {
			held = append(held, o)
		}
	}
	return held, now, err
}

// renewed is a partition whose lease is longer now than it was, or that somebody else has claimed.
func renewed(before, now []store.Owner) (o store.Owner, ok bool) {
	until := map[int]time.Time{}
	for _, o := range before {
		until[o.Partition] = o.Until
	}
	for _, o := range now {
		if o.Until.After(until[o.Partition]) {
			return o, true
		}
	}
	return o, false
}
