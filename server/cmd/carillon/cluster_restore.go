package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/store/etcdembed"
)

// newClusterRestore returns the command `carillon cluster restore`.
func newClusterRestore(a app) *cobra.Command {
	var m members
	var name string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a node's folder on etcd-embed of a snapshot",
		Long: `Make the folder of one node on etcd-embed of what carillon cluster snapshot wrote, for a cluster of which most
members are lost, or to go back. All nodes must be stopped. Run it on each node's machine with the same file and the same --peers,
before any of them starts; the folder must not be there: move an old one away. It appears whole or not at all, so an attempt that
was cut off is simply repeated. A node that starts with its old folder all the same is refused by the others.

What was put or has ended after the snapshot is forgotten: runs that have ended since run again.`,
		Example: `carillon cluster restore my.snapshot --store etcd-embed:/var/carillon --node-name n1 --peers n1=10.0.0.1,n2=10.0.0.2,n3=10.0.0.3`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			o, err := m.member(cmd, name)
			if err != nil {
				return err
			}
			o.Store.Log = slog.New(slog.NewTextHandler(a.errs, &slog.HandlerOptions{Level: slog.LevelWarn}))
			if err := etcdembed.Restore(&o, words[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s has all that %s holds: start the node of member %q when the others are restored, too\n",
				o.Folder, words[0], o.Member)
			return err
		},
	}
	m.addTo(cmd)
	cmd.Flags().StringVar(&name, "node-name", "", "`name` of this node's member, one of --peers; environment CARILLON_NODE_NAME")
	return cmd
}
