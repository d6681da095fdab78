package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/outbox"
)

// newOutbox returns the command `carillon outbox`.
func newOutbox(a app) *cobra.Command {
	return newGroup("outbox", "Put jobs in the transactions of an application's PostgreSQL database",
		newOutboxInstall(a), newOutboxSQL(a), newOutboxRejects(a), newOutboxRetry(a), newOutboxWaiting(a))
}

// outboxURL is the flag that names the application's database.
type outboxURL string

func (u *outboxURL) add(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(u), "url", "",
		"`url` of the application's database, postgres://…; a password belongs in PGPASSWORD or the password file (required)")
}

// outboxWait bounds a command about an outbox.
const outboxWait = 30 * time.Second

// within checks the URL and runs f.
func (u *outboxURL) within(cmd *cobra.Command, f func(ctx context.Context, url string) error) error {
	if *u == "" {
		return usagef("--url: which database is it? For example --url postgres://localhost/shop")
	}
	if err := outbox.CheckURL(string(*u)); err != nil {
		return usagef("--url: %v", err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), outboxWait)
	defer cancel()
	return f(ctx, string(*u))
}

// newOutboxInstall returns the command `carillon outbox install`.
func newOutboxInstall(a app) *cobra.Command {
	var url outboxURL
	var roles outbox.Roles
	cmd := &cobra.Command{
		Use:   "install --url URL",
		Short: "Make the outbox in a database, or bring it up to date",
		Long: `Make schema carillon in an application's database: a table of commands, and the functions carillon.put_job, put_jobs and
delete_job, which programs call in their transactions. To do so again is harmless, and brings an older version up to date. The role of
the URL owns what is made; it must be able to create a schema, or own the schema carillon.

The role under which a program connects needs --app-role, that of the nodes --node-role, unless they are the owner's.`,
		Example: `carillon outbox install --url postgres://owner@localhost/shop --app-role shop --node-role carillon`,
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return url.within(cmd, func(ctx context.Context, url string) error {
				if err := outbox.Install(ctx, url, roles); err != nil {
					return err
				}
				a.sayf("The outbox is installed, version %d.", outbox.Version)
				return nil
			})
		},
	}
	url.add(cmd)
	cmd.Flags().StringArrayVar(&roles.App, "app-role", nil, "`role` that may put and delete jobs; repeatable")
	cmd.Flags().StringArrayVar(&roles.Node, "node-role", nil,
		"`role` under which nodes read the outbox; repeatable")
	return cmd
}

// newOutboxSQL returns the command `carillon outbox sql`.
func newOutboxSQL(a app) *cobra.Command {
	return &cobra.Command{
		Use:   "sql",
		Short: "Print what carillon outbox install does, as SQL",
		Long: `Print the SQL of carillon outbox install, for a tool that applies migrations. It may be applied again and over an older
version, in one transaction. It grants nothing: docs/outbox.md says which rights roles need.`,
		Example: `carillon outbox sql`,
		Args:    arguments(0, 0),
		RunE:    func(*cobra.Command, []string) error { return a.print(outbox.Script()) },
	}
}
