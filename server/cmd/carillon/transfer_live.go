package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/credentials"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/follow"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// alive are the flags of commands that copy a store while nodes serve it.
type alive struct {
	live  bool
	reach reach // how nodes are reached; its address is not used
}

func (l *alive) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&l.live, "live", false,
		"while nodes serve the store: they are found in it, or by its folder, and called by gRPC")
	section(cmd.Flags(), sectionConnection, l.reach.addTLS)
}

// check refuses flags that would have no effect.
func (l *alive) check(cmd *cobra.Command) error {
	takeEnvironment(cmd.Flags(), l.reach.tlsFlags())
	for name := range l.reach.tlsFlags() {
		if cmd.Flags().Changed(name) && !l.live {
			return usagef("--%s is for --live: otherwise no node is called", name)
		}
	}
	return nil
}

// nodes returns who is asked for what the store holds. The caller calls end when they have been asked.
func (l *alive) nodes(ctx context.Context, url string) (nodes transfer.Nodes, end func() error, err error) {
	over, err := l.reach.credentials()
	if err != nil {
		return nil, nil, err
	}
	d, err := store.DriverOf(url)
	if err != nil {
		return nil, nil, err
	}
	if d.Folder != nil {
		nodes, err := nodesOf(d.Folder(url), over)
		return nodes, func() error { return nil }, err
	}
	s, err := store.Open(ctx, url, store.Options{Existing: true})
	if err != nil {
		return nil, nil, err
	}
	secret := peer.Secret(s.Meta().MACKey)
	return func(ctx context.Context, but []string) (all []transfer.Node, err error) {
		members, err := s.Leaser().Members(ctx)
		if err != nil {
			return nil, fmt.Errorf("the nodes of the store: %w", err)
		}
		for _, m := range members {
			switch {
			case slices.Contains(but, m.ID):
			case m.Address == "":
				return all, fmt.Errorf("node %s has no address at which it could be asked: it is within a program that does not listen", m.ID)
			default:
				all = append(all, follow.Call(ctx, m.ID, m.Address, secret, over))
			}
		}
		return all, nil
	}, s.Close, nil
}

// nodesOf calls the node that has a folder open, and those of its cluster.
func nodesOf(folder string, over credentials.TransportCredentials) (transfer.Nodes, error) {
	if _, err := follow.ReadDoor(folder); err != nil {
		return nil, err
	}
	return func(ctx context.Context, but []string) (all []transfer.Node, err error) {
		door, err := follow.ReadDoor(folder) // which is another one when the node has started again
		if err != nil {
			return nil, err
		}
		status, err := clusterAt(ctx, door.Address, over)
		if err != nil {
			return nil, fmt.Errorf("the node of %s, at %s: %w", folder, door.Address, err)
		}
		for _, n := range status.Nodes {
			if len(status.Nodes) == 1 {
				n.Address = door.Address
			}
			if !slices.Contains(but, n.ID) {
				all = append(all, follow.Call(ctx, n.ID, n.Address, door.Secret, over))
			}
		}
		return all, nil
	}, nil
}

// clusterAt asks a node for the nodes of its cluster.
func clusterAt(ctx context.Context, address string, over credentials.TransportCredentials) (
	status carillon.ClusterStatus, err error) {
	c, err := client.Dial(address, client.WithTransportCredentials(over))
	if err != nil {
		return status, err
	}
	status, err = c.ClusterStatus(ctx)
	return status, errors.Join(err, c.Close())
}

// migrate moves the store.
func (l *alive) migrate(ctx context.Context, url string, to transfer.Open, p transfer.Progress) (
	result transfer.Result, err error) {
	defer func() {
		if noNode(err) { // as after an earlier run of the command
			err = fmt.Errorf("%w (if all of its nodes are stopped, leave --live out)", err)
		}
	}()
	nodes, end, err := l.nodes(ctx, url)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, end()) }()
	return transfer.MigrateLive(ctx, nodes, to, p)
}

// noNode reports whether an error is that there is no node, of a folder or of a store.
func noNode(err error) bool {
	return errors.Is(err, transfer.ErrNoNode) || errors.Is(err, follow.ErrNoNode)
}

// depose takes the store out of service, and has its nodes end. If there are none (any more, if an earlier
// call has come as far as that), it is marked as one whose nodes are stopped.
func (l *alive) depose(ctx context.Context, url string, h transfer.Head) error {
	nodes, end, err := l.nodes(ctx, url)
	if err == nil {
		err = errors.Join(transfer.DeposeLive(ctx, nodes, h), end())
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transfer.ErrNotItsStore) || ctx.Err() != nil:
		return err
	case !noNode(err):
		return fmt.Errorf("%w (leave --live out once all of its nodes are stopped)", err)
	}
	if stopped := deposeStopped(ctx, url, h); stopped != nil {
		return fmt.Errorf("%w; as a store whose nodes are stopped: %w", err, stopped)
	}
	return nil
}

// copied copies the store to a folder, and returns how the copy is opened.
func (l *alive) copied(ctx context.Context, url, folder string, p transfer.Progress) (
	open func(context.Context) (store.Store, error), err error) {
	nodes, end, err := l.nodes(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	at := "pebble:" + folder
	err = transfer.CopyLive(ctx, nodes, func(ctx context.Context, o store.Options) (store.Store, error) {
		return store.Open(ctx, at, o)
	}, p)
	return func(ctx context.Context) (store.Store, error) {
		return store.Open(ctx, at, store.Options{Existing: true})
	}, err
}
