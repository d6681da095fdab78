package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Roles are database roles that get the rights they need.
type Roles struct {
	App  []string // call the functions
	Node []string // read the outbox
}

// Install makes the tables and functions in a database, or brings them up to date, in one transaction.
func Install(ctx context.Context, url string, roles Roles) error {
	return inDatabase(ctx, url, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, Script(), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		for _, sql := range grants(roles) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// grants returns the statements that give roles their rights.
func grants(roles Roles) (all []string) {
	for _, role := range roles.App {
		r := pgx.Identifier{role}.Sanitize()
		all = append(all, "GRANT USAGE ON SCHEMA carillon TO "+r,
			"GRANT EXECUTE ON FUNCTION carillon.put_job, carillon.put_jobs, carillon.delete_job TO "+r)
	}
	for _, role := range roles.Node {
		r := pgx.Identifier{role}.Sanitize()
		all = append(all, "GRANT USAGE ON SCHEMA carillon TO "+r,
			"GRANT SELECT ON carillon.outbox_settings TO "+r,
			"GRANT SELECT, UPDATE, DELETE ON carillon.outbox TO "+r,
			"GRANT SELECT, INSERT, DELETE ON carillon.outbox_done, carillon.outbox_rejects TO "+r,
			"GRANT UPDATE ON carillon.outbox_rejects TO "+r,
			"GRANT EXECUTE ON FUNCTION carillon.retry_rejects TO "+r)
	}
	return all
}

// inDatabase connects, and runs f in a transaction.
func inDatabase(ctx context.Context, url string, f func(tx pgx.Tx) error) error {
	config, err := poolConfig(url)
	if err != nil {
		return err
	}
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("connect to the application's database: %w", err)
	}
	err = pgx.BeginFunc(ctx, c, f)
	if closed := c.Close(ctx); err == nil {
		err = closed
	}
	return err
}
