package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrOtherTables says that the tables are not those of their version: a build of this program that was never
// released made them, or somebody changed them.
var ErrOtherTables = errors.New("the tables are not what this version of carillon makes of them: run the build that made them, " +
	"or start on an empty schema")

// used are the statements that every node needs.
var used = []string{fenceSQL, deleteSQL, putSQL, redriveSQL, runSQL, trimSQL, expireSQL, metaDeleteSQL,
	metaPutSQL, claimSQL, joinSQL, retireSQL,
	leaveSQL, membersSQL, renewSQL, releaseSQL, ownersSQL}

// checkTables refuses tables that lack what the statements name, or have it with another type, whatever
// version they say they are of.
func checkTables(ctx context.Context, tx pgx.Tx) error {
	for _, sql := range used {
		_, err := tx.Conn().Prepare(ctx, "", sql)
		if otherTables(codeOf(err)) {
			return fmt.Errorf("%w (%w)", ErrOtherTables, err)
		}
		if err != nil {
			return fmt.Errorf("look at the tables: %w", err)
		}
	}
	return nil
}

// otherTables reports whether a statement of ours fails with a code because tables are not what it was
// written for. The class is that of syntax and access: names that are not there, operators and functions that
// types do not have.
func otherTables(code string) bool { return strings.HasPrefix(code, "42") && code != codeNoRight }
