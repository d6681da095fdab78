package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/daprmove"
)

// daprExport holds the flags of `carillon dapr export`.
type daprExport struct {
	connection
	etcdAccess
	sentryFlags
	namespaces []string
	etcd       daprmove.EtcdOptions
	dry        bool
}

// newDaprExport returns the command `carillon dapr export`.
func newDaprExport(a app) *cobra.Command {
	d := daprExport{sentryFlags: newSentryFlags()}
	cmd := &cobra.Command{
		Use:   "export TARGET...",
		Short: "Give Dapr's jobs back to Dapr's scheduler",
		Long: `Give Dapr's jobs back to Dapr's scheduler, which goes on where they are. TARGET is the addresses of its etcd,
http://HOST:PORT or https://HOST:PORT, whose user and password are in CARILLON_ETCD_USERNAME and CARILLON_ETCD_PASSWORD;
or the name of a new file, for dapr scheduler import. Prefer the etcd: dapr scheduler import of Dapr 1.18 writes many
jobs at once, which its scheduler then takes for each other.

Stop the sidecars first, or jobs fire on both sides. The jobs here stay. Those that Dapr's scheduler cannot have, such
as paused ones, are named, and the command fails. Jobs of other targets are none of Dapr's.`,
		Example: `carillon dapr export --replace --while-running http://127.0.0.1:2379
carillon dapr export --namespaces shop,billing jobs.export`,
		Args: arguments(1, 100),
		RunE: func(cmd *cobra.Command, targets []string) error { return d.run(cmd, a, targets) },
	}
	d.addServer(cmd)
	d.addIdentity(cmd)
	d.etcdAccess.add(cmd)
	cmd.Flags().StringSliceVar(&d.namespaces, "namespaces", nil,
		"only jobs of these `namespaces`; default all")
	cmd.Flags().BoolVar(&d.etcd.Replace, "replace", false, "remove the jobs of an etcd that are not here")
	cmd.Flags().BoolVar(&d.etcd.WhileRunning, "while-running", false,
		"write to an etcd on which Dapr's scheduler is at work, such as the one in it, before sidecars come")
	cmd.Flags().BoolVar(&d.dry, "dry-run", false, "read and check the jobs only")
	return cmd
}

func (d *daprExport) run(cmd *cobra.Command, a app, targets []string) error {
	if cmd.Flags().Changed("namespaces") && len(d.namespaces) == 0 {
		return usagef("--namespaces: name at least one, or leave it out for all")
	}
	access, err := d.access(targets)
	if err != nil {
		return err
	}
	live := strings.HasPrefix(targets[0], "http://") || strings.HasPrefix(targets[0], "https://")
	if !live && len(targets) > 1 {
		return usagef("%q are several targets: give one file, or addresses of one etcd", targets)
	}
	var state, there *daprmove.State
	err = d.onNode(cmd, &d.sentryFlags, func(node *client.Client, told daprmove.Progress) (err error) {
		state, err = daprmove.Collect(cmd.Context(), node, d.namespaces)
		switch {
		case err != nil || d.dry:
			return err
		case live:
			there, err = daprmove.WriteEtcd(cmd.Context(), targets, access, state, d.etcd, told)
		default:
			there, err = daprmove.WriteFile(targets[0], state)
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.report(cmd, a, state, there)
}

// report prints what is here and what is there; nil: it was not written.
func (d *daprExport) report(cmd *cobra.Command, a app, state, there *daprmove.State) error {
	here, err := daprmove.DigestOf(state.Records)
	if err != nil {
		return err
	}
	r := daprReport{Source: state.Origin, There: here, Over: state.Over, Faults: faultsOf(state.Faults)}
	if there != nil {
		if len(there.Faults) > 0 {
			return errors.New("what was written cannot be read: " + there.Faults[0].Error())
		}
		r.Here = &here
		if r.There, err = daprmove.DigestOf(there.Records); err != nil {
			return err
		}
	}
	return r.show(cmd, a)
}
