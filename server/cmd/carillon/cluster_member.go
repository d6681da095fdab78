package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/store/etcdembed"
)

// newClusterMember returns the command `carillon cluster member`.
func newClusterMember(a app) *cobra.Command {
	return newGroup("member", "List, add and remove the etcd members of nodes on etcd-embed",
		newMemberList(a), newMemberAdd(a), newMemberRemove(a))
}

// members holds the flags of commands that ask the members of an embedded etcd.
type members struct{ store, peers string }

// memberAct is what a command does with the members.
type memberAct func(ctx context.Context, admin *etcdembed.Admin, cmd *cobra.Command, words []string) error

// command returns a command that does f with the members.
func (m *members) command(use, short string, words int, f memberAct) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: arguments(words, words),
		RunE: func(cmd *cobra.Command, words []string) error {
			admin, err := m.connect(cmd)
			if err != nil {
				return err
			}
			return errors.Join(f(cmd.Context(), admin, cmd, words), admin.Close())
		},
	}
	m.addTo(cmd)
	return cmd
}

func (m *members) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.store, "store", "", "`url` of the store, as for serve; environment CARILLON_STORE")
	cmd.Flags().StringVar(&m.peers, "peers", "", "`members`, as for serve; environment CARILLON_PEERS")
}

// member returns the options of one member, as serve takes them from its flags. Nothing is listened at.
func (m *members) member(cmd *cobra.Command, name string) (etcdembed.Options, error) {
	takeEnvironment(cmd.Flags(), map[string]*string{"store": &m.store, "peers": &m.peers, "node-name": &name})
	store := m.store
	if m.peers != "" {
		var err error
		if store, err = etcdembed.WithPeers(store, m.peers, name, true); err != nil {
			return etcdembed.Options{}, usagef("--peers: %v", err)
		}
	}
	o, err := etcdembed.ParseURL(store)
	if err != nil {
		return o, usagef("--store: %v", err)
	}
	return o, nil
}

// connect connects to the members that the flags list.
func (m *members) connect(cmd *cobra.Command) (*etcdembed.Admin, error) {
	takeEnvironment(cmd.Flags(), map[string]*string{"store": &m.store, "peers": &m.peers})
	store := m.store
	if store == "" && m.peers != "" {
		store = "etcd-embed:."
	}
	if m.peers != "" {
		peers, err := etcdembed.ParsePeers(m.peers)
		if err != nil {
			return nil, usagef("--peers: %v", err)
		}
		if store, err = etcdembed.WithPeers(store, m.peers, peers[0].Name, true); err != nil {
			return nil, usagef("--store: %v", err)
		}
	}
	o, err := etcdembed.ParseURL(store)
	if err != nil {
		return nil, usagef("--store: %v", err)
	}
	return etcdembed.NewAdmin(o)
}

// memberReport is a member as JSON.
type memberReport struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Peers   string `json:"peers"`
	Clients string `json:"clients,omitempty"`
	State   string `json:"state"`
}

// memberOf describes a member. Its state is the most important that can be said of it.
func memberOf(m *etcdembed.Member) memberReport {
	r := memberReport{ID: strconv.FormatUint(m.ID, 16), Name: m.Name, Peers: m.Peers, Clients: m.Clients}
	switch {
	case m.Clients == "":
		r.State = "not started"
	case !m.Reached:
		r.State = "away"
	case m.Learner:
		r.State = "learner"
	case m.Leads:
		r.State = "leader"
	default:
		r.State = "follower"
	}
	return r
}

func newMemberList(a app) *cobra.Command {
	var m members
	cmd := m.command("list", "List the members", 0,
		func(ctx context.Context, admin *etcdembed.Admin, cmd *cobra.Command, _ []string) error {
			all, err := admin.Members(ctx)
			if errors.Is(err, etcdembed.ErrNoMajority) {
				if _, err := fmt.Fprintf(a.errs, "warning: %v: this is what one of them knows\n", err); err != nil {
					return err
				}
			} else if err != nil {
				return err
			}
			reports := make([]memberReport, len(all))
			for i := range all {
				reports[i] = memberOf(&all[i])
			}
			if structured(cmd) {
				return a.encode(cmd, reports)
			}
			_, err = fmt.Fprint(a.out, table([]string{"MEMBER", "ID", "PEERS", "NODES", "STATE"}, reports,
				func(r *memberReport) []string {
					return []string{dash(r.Name), r.ID, r.Peers, dash(r.Clients), r.State}
				}))
			return err
		})
	cmd.Long = `List the members. STATE is leader, follower, learner (it catches up and does not count yet), not started (it was
added), or away.`
	cmd.Example = `carillon cluster member list --peers n1=10.0.0.1,n2=10.0.0.2,n3=10.0.0.3`
	addOutput(cmd)
	return cmd
}

func newMemberAdd(a app) *cobra.Command {
	var m members
	cmd := m.command("add NAME=HOST[:PORT]", "Add a member, which is to be started then", 1,
		func(ctx context.Context, admin *etcdembed.Admin, _ *cobra.Command, words []string) error {
			peers, err := etcdembed.ParsePeers(words[0])
			if err != nil || len(peers) != 1 {
				return usagef("%q is not one member as NAME=HOST or NAME=HOST:PORT", clip(words[0], 80))
			}
			added, err := admin.Add(ctx, peers[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "Member %s (%x) at %s is added as a learner. Start its node with an empty folder, --node-name %s and "+
				"--peers that list it beside the others: it catches up, and counts then.\n", peers[0].Name, added.ID, added.Peers,
				peers[0].Name)
			return err
		})
	cmd.Long = `Add a member, which is to be started then, with an empty folder. It begins as a learner, which does not count among those of
which most must live; as soon as it has what the others have, the leader makes it a full member. One member is added at a time.`
	cmd.Example = `carillon cluster member add n4=10.0.0.4 --peers n1=10.0.0.1,n2=10.0.0.2,n3=10.0.0.3`
	return cmd
}

func newMemberRemove(a app) *cobra.Command {
	var m members
	cmd := m.command("remove NAME|ID", "Remove a member", 1,
		func(ctx context.Context, admin *etcdembed.Admin, _ *cobra.Command, words []string) error {
			gone, err := admin.Remove(ctx, words[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "Member %s (%x) at %s is removed. Its node ends; its folder is of no use any more.\n",
				dash(gone.Name), gone.ID, gone.Peers)
			return err
		})
	cmd.Long = `Remove a member: one that is lost for good, or a node that is no longer wanted. A lost member is replaced by remove and add, in
that order, so that it does not count among those of which most must live.`
	cmd.Example = `carillon cluster member remove n3 --peers n1=10.0.0.1,n2=10.0.0.2`
	return cmd
}

// newClusterSnapshot returns the command `carillon cluster snapshot`.
func newClusterSnapshot(a app) *cobra.Command {
	var m members
	var rest bool
	cmd := m.command("snapshot FILE", "Copy all that nodes on etcd-embed keep to a file", 1,
		func(ctx context.Context, admin *etcdembed.Admin, _ *cobra.Command, words []string) error {
			if rest {
				of, err := admin.SnapshotOfRest(ctx, words[0])
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "%s has a copy of what member %s has. What it had not been told of is not in it. carillon "+
					"cluster restore makes a member's folder of it.\n", words[0], of.Name)
				return err
			}
			err := admin.Snapshot(ctx, words[0])
			if errors.Is(err, etcdembed.ErrNoMajority) {
				return fmt.Errorf("%w; if most members are lost for good, --without-majority copies what is left", err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s has a copy of all keys. carillon cluster restore makes a member's folder of it.\n", words[0])
			return err
		})
	cmd.Flags().BoolVar(&rest, "without-majority", false,
		"most members are lost for good: copy what the one has that has most of those that are left")
	cmd.Long = `Copy all that nodes on etcd-embed keep to a file, as of one moment, while they go on. If most members are lost for good,
--without-majority copies what is left. At least one member must run: its node does, though it is not ready.`
	cmd.Example = `carillon cluster snapshot carillon.snapshot --peers n1=10.0.0.1,n2=10.0.0.2,n3=10.0.0.3`
	return cmd
}
