package etcdembed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// Restore makes the folder of one member of what [Admin.Snapshot] wrote to a file. The members of the options
// become a new cluster: Restore is to be called for each of them, with the same file, before any of them
// starts. The new cluster has another identity, by which a member of the old one that starts once more is
// refused: it would bring back what it has.
//
// The folder appears whole or not at all. It must not be there, or be empty.
func Restore(o *Options, file string) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := vacant(o.Folder); err != nil {
		return err
	}
	token, err := tokenOf(file)
	if err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	// What an earlier attempt has left can be a part.
	making := o.Folder + ".restoring"
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	self, _ := o.self()
	err = snapshot.NewV3(zap.New(zapCore{log: o.Store.Log})).Restore(snapshot.RestoreConfig{SnapshotPath: file,
		Name: o.Member, OutputDataDir: making, PeerURLs: []string{o.scheme() + "://" + self.peers()},
		InitialCluster: o.initial(), InitialClusterToken: token})
	if err != nil {
		return errors.Join(fmt.Errorf("restore %s: %w", file, err), os.RemoveAll(making))
	}
	if err := os.Remove(o.Folder); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", file, err) // it is not empty any more
	}
	if err := os.Rename(making, o.Folder); err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	return syncFolder(filepath.Dir(o.Folder))
}

// tokenOf returns the token of the cluster that a snapshot becomes. It makes the ids of the cluster and its
// members, with their URLs. All members find the same one: a snapshot ends with its checksum.
func tokenOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := make([]byte, sha256.Size)
	if _, err = f.Seek(-sha256.Size, io.SeekEnd); err == nil {
		_, err = io.ReadFull(f, sum)
	}
	if err != nil {
		return "", fmt.Errorf("it is no snapshot, which ends with a checksum: %w", err)
	}
	return clusterToken + "-" + hex.EncodeToString(sum), nil
}

// vacant returns an error if a folder is there and has something in it.
func vacant(folder string) error {
	found, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && len(found) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("store: the folder to restore to: %w", err)
	}
	return fmt.Errorf("store: the folder %s is not empty: a snapshot is restored to a folder of its own", folder)
}

// syncFolder makes the names in a folder durable.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
