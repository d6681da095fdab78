package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/server/store"
)

// Codes of PostgreSQL's errors.
const (
	codeDivision       = "22012" // the fence fails with it
	codeSerialization  = "40001"
	codeCompletion     = "40003" // statement completion unknown: some servers answer so to a commit
	codeDeadlock       = "40P01"
	codeLockTimeout    = "55P03"
	codeUniqueViolated = "23505"
	codeDuplicateTable = "42P07"
	codeReadOnly       = "25006"
	codeOtherStatement = "42P05" // a prepared statement is there that the session has not made
	codeNoStatement    = "26000" // one that it has made is not
	codeNoRight        = "42501"
	codeNoSchema       = "3F000"
	codeStarting       = "57P03" // or ending, or recovering
	codeShutdown       = "57P01"
	codeCrash          = "57P02"
	codeDiskFull       = "53100"
	codeTooMany        = "53300" // connections
)

// codeOf is the code of a server's error; empty if the server said nothing.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// outcome gives an error of a group that was sent the meaning that the contract knows.
//
// What the server answers with severity ERROR has rolled the transaction back. With FATAL it also ended the
// session, possibly after the commit, and a lost connection says nothing at all; unless nothing was sent.
func outcome(err error) error {
	e, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return nil
	case answered && e.SeverityUnlocalized == "ERROR" && e.Code == codeDivision:
		return store.ErrFenced
	case answered && e.SeverityUnlocalized == "ERROR" && e.Code == codeDiskFull:
		return fmt.Errorf("%w: %w", store.ErrFull, e)
	case answered && e.SeverityUnlocalized == "ERROR" && e.Code != codeCompletion:
		return fmt.Errorf("store: PostgreSQL refused the write: %w", explained(err))
	case !answered && pgconn.SafeToRetry(err):
		return fmt.Errorf("store: the write was not sent to PostgreSQL: %w", err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, err)
}

// failed says what could not be done.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: %s: %w", what, explained(err))
}

// explained says what is behind an error that does not say so itself: statements that were prepared in
// another session.
func explained(err error) error {
	if code := codeOf(err); code == codeOtherStatement || code == codeNoStatement {
		return fmt.Errorf("%w (%w)", err, errSession)
	}
	return err
}

// rolledBack reports whether the server has rolled back a transaction that may be tried again at once.
func rolledBack(err error) bool {
	code := codeOf(err)
	return code == codeSerialization || code == codeDeadlock
}

// broken reports whether a connection ended that there was: another one may do better at once.
func broken(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return lost(err) && !connecting && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded)
}

// lost reports whether a call failed because of its connection, not because of what was asked.
func lost(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.SeverityUnlocalized != "ERROR" // the server ended the session
	}
	return err != nil && !errors.Is(err, ErrReplaced) && !errors.Is(err, errSession) &&
		!errors.Is(err, store.ErrDamaged)
}

// away reports whether an error of a start may pass: the server cannot be reached, or is not ready to be
// used. What it answers otherwise (another password, no such database) is for people.
func away(err error) bool {
	switch code := codeOf(err); code {
	case codeStarting, codeShutdown, codeCrash, codeTooMany:
		return true
	case "":
	default:
		return false
	}
	// a name that is there when the server is
	if _, unresolved := errors.AsType[*net.DNSError](err); unresolved {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	for _, cause := range []error{context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF,
		syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
