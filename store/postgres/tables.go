package postgres

import (
	"context"
	"errors"
	"fmt"
)

// ErrOtherTables says that the tables are not those of their version: a build of this program that was never released made them, or
// somebody changed them.
var ErrOtherTables = errors.New("the tables are not what this version of carillon makes of them: run the build that made them, " +
	"or start on an empty schema")

// used are the statements that every node needs.
var used = []string{fenceSQL, deleteSQL, putSQL, redriveSQL, runSQL, trimSQL, expireSQL, smallGoneSQL, smallSQL, claimSQL, joinSQL, retireSQL,
	leaveSQL, membersSQL, renewSQL, releaseSQL, ownersSQL}

// checkTables refuses tables that lack what the statements name, whatever version they say they are of.
func (s *Store) checkTables(ctx context.Context) error {
	conn, err := s.leases.Acquire(ctx)
	if err != nil {
		return failed("connect to PostgreSQL", err)
	}
	defer conn.Release()
	for _, sql := range used {
		switch _, err := conn.Conn().Prepare(ctx, "", sql); codeOf(err) {
		case codeNoTable, codeNoColumn:
			return fmt.Errorf("%w (%w)", ErrOtherTables, err)
		default:
			if err != nil {
				return failed("look at the tables", err)
			}
		}
	}
	return nil
}
