package server

import (
	"github.com/carillonhq/carillon/server/internal/follow"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/store"
)

// door is the folder that a node alone has open, by which commands on this machine find the node; empty:
// there is none.
type door string

// doorOf returns the door of a store.
func doorOf(storeURL string) door {
	d, err := store.DriverOf(storeURL)
	if err != nil || d.Folder == nil {
		return ""
	}
	return door(d.Folder(storeURL))
}

// open writes where the node listens, and what proves that somebody may read the store.
func (d door) open(address string, m store.Meta) error {
	if d == "" {
		return nil
	}
	return follow.WriteDoor(string(d), follow.Door{Address: address, Secret: peer.Secret(m.MACKey)})
}

// close ends what open began.
func (d door) close() error {
	if d == "" {
		return nil
	}
	return follow.CloseDoor(string(d))
}
